import type { PasswordPolicy } from "../../../standards/password-policy.ts";
import type { PasswordPolicyJson } from "../report-json.ts";
import {
  contradiction,
  type Evidence,
  failed,
  notEvaluated,
  nothingRequired,
  type Outcome,
  passed,
  type Rules,
} from "./rule.ts";

/** Compares the organization's own policy, which is checked where a password is chosen. */
function checkOwn({ organization }: Evidence, holds: boolean, actual: string): Outcome {
  const { id, name } = organization;
  const message = `the organization's password policy says ${actual}`;
  return holds
    ? passed(1, message)
    : failed(1, message, [{ resource_type: "organization", resource_id: id, name, actual }]);
}

type Flag = { [Key in keyof PasswordPolicy]: PasswordPolicy[Key] extends boolean ? Key : never }[keyof PasswordPolicy];

const flagRule = (flag: Flag, name: string) => (required: boolean, evidence: Evidence) =>
  required
    ? checkOwn(
        evidence,
        evidence.organization.passwordPolicy[flag],
        `${name} ${evidence.organization.passwordPolicy[flag]}`,
      )
    : nothingRequired();

const contradictory = ({ min_length: least, max_length: most }: PasswordPolicyJson) =>
  contradiction(["min_length", least], ["max_length", most]);

/** What is required of passwords. */
export const passwordPolicy: Rules<PasswordPolicyJson> = {
  min_length: (least, evidence, group) => {
    const { minLength } = evidence.organization.passwordPolicy;
    return contradictory(group) ?? checkOwn(evidence, minLength >= least, `min_length ${minLength}`);
  },
  max_length: (most, evidence, group) => {
    const { maxLength } = evidence.organization.passwordPolicy;
    return contradictory(group) ?? checkOwn(evidence, maxLength <= most, `max_length ${maxLength}`);
  },
  require_uppercase: flagRule("requireUppercase", "require_uppercase"),
  require_lowercase: flagRule("requireLowercase", "require_lowercase"),
  require_numbers: flagRule("requireNumbers", "require_numbers"),
  require_special: flagRule("requireSpecial", "require_special"),
  max_age_days: () => notEvaluated("passwords do not expire here, and when one was chosen is not kept"),
  history_count: (count) =>
    count === 0
      ? nothingRequired()
      : notEvaluated("the server never sees a password (SRP), so it cannot tell whether one comes again"),
};
