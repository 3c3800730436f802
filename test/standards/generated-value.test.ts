import { expect } from "chai";
import { alphabetOf, charsetNames, charsets, generateValue } from "../../src/standards/generated-value.ts";

const none = { excludeCharacters: "" };

describe("A generated value", () => {
  it("has as many characters as asked for, all of the charset", () => {
    for (const charset of charsetNames) {
      for (const length of [8, 32, 256]) {
        const value = generateValue({ length, charset, ...none });

        expect([...value], charset).to.have.length(length);
        expect([...value].filter((character) => !charsets[charset].includes(character))).to.deep.equal([]);
      }
    }
  });

  it("has every character of its charset, and none that is excluded, in the long run", () => {
    for (const charset of charsetNames) {
      const excludeCharacters = "0aA_-";
      const draw = () => generateValue({ length: 256, charset, excludeCharacters });
      const seen = new Set(Array.from({ length: 60 }, draw).join(""));

      expect([...seen].toSorted(), charset).to.deep.equal(alphabetOf({ charset, excludeCharacters }).toSorted());
      for (const character of excludeCharacters) expect(seen.has(character), character).to.equal(false);
    }
  });

  it("is another one each time", () => {
    const values = Array.from({ length: 1000 }, () => generateValue({ length: 16, charset: "base64url", ...none }));

    expect(new Set(values).size).to.equal(values.length);
  });

  it("has all characters equally often, also where their number is no power of two", () => {
    const alphabet = alphabetOf({ charset: "alphanumeric_symbols", ...none });
    const draws = 200_000;
    const counts = new Map(alphabet.map((character) => [character, 0]));

    const text = Array.from({ length: draws / 200 }, () =>
      generateValue({ length: 200, charset: "alphanumeric_symbols", ...none }),
    ).join("");

    for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
    const expected = draws / alphabet.length;
    const chiSquared = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    const degrees = alphabet.length - 1;
    // Past eight standard deviations of the distribution: a fair draw ends there once in 10^9 runs or so.
    expect(chiSquared).to.be.below(degrees + 8 * Math.sqrt(2 * degrees));
  });

  it("draws from charsets in which nothing stands twice", () => {
    for (const charset of charsetNames) expect(new Set(charsets[charset]).size).to.equal(charsets[charset].length);
    expect(charsetNames.map((charset) => charsets[charset].length)).to.deep.equal([62, 88, 16, 64, 10]);
  });
});
