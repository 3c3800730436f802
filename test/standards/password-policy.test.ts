import { expect } from "chai";
import { lackingIn, type PasswordPolicy } from "../../src/standards/password-policy.ts";

const nothing: PasswordPolicy = {
  minLength: 1,
  maxLength: 1024,
  requireUppercase: false,
  requireLowercase: false,
  requireNumbers: false,
  requireSpecial: false,
};
const everything: PasswordPolicy = {
  minLength: 10,
  maxLength: 20,
  requireUppercase: true,
  requireLowercase: true,
  requireNumbers: true,
  requireSpecial: true,
};
const upper = "an upper-case letter";
const lower = "a lower-case letter";
const digit = "a digit";
const special = "a character that is neither a letter nor a digit";

describe("What a password lacks", () => {
  const cases: [password: string, policy: PasswordPolicy, lacking: string[]][] = [
    ["Correct-Horse-1", everything, []],
    ["", everything, ["10 characters or more", upper, lower, digit, special]],
    ["correct horse", everything, [upper, digit]],
    ["CORRECT1HORSE", everything, [lower, special]],
    ["Correct horse 1 battery", everything, ["20 characters or fewer"]],
    // Of other alphabets too; what has no case is a letter all the same.
    ["Ünïcödé٣ straße", everything, []],
    ["正しい馬の電池です", { ...nothing, requireSpecial: true }, [special]],
    ["正しい馬の電池です", { ...nothing, requireUppercase: true, requireLowercase: true }, [upper, lower]],
    // Characters are code points, whatever they take in memory.
    ["🔑🔑🔑", { ...nothing, minLength: 3, maxLength: 3 }, []],
    ["🔑🔑", { ...nothing, minLength: 3 }, ["3 characters or more"]],
    // An accent on its own belongs to its letter, a space does not.
    ["e\u0301", { ...nothing, requireSpecial: true }, [special]],
    ["a b", { ...nothing, requireSpecial: true }, []],
  ];
  for (const [password, policy, lacking] of cases) {
    it(`in ${JSON.stringify(password)} is ${lacking.length === 0 ? "nothing" : lacking.join(", ")}`, () => {
      expect(lackingIn(password, policy)).to.deep.equal(lacking);
    });
  }
});
