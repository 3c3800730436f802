import type { PasswordPolicy } from "../../standards/password-policy.ts";
import { invalid } from "../errors.ts";

/** How long sessions last. */
export interface SessionPolicy {
  readonly maxIdleTimeoutMinutes: number;
}

/** The fields of a policy that were set, or are to be. */
export type Settings<Policy> = { readonly [Field in keyof Policy]?: Policy[Field] | undefined };

const usualPasswordPolicy: PasswordPolicy = {
  minLength: 8,
  maxLength: 1024,
  requireUppercase: false,
  requireLowercase: false,
  requireNumbers: false,
  requireSpecial: false,
};

/** Also the longest that may be set. */
export const usualSessionPolicy: SessionPolicy = { maxIdleTimeoutMinutes: 30 };

/** What is required of passwords: what column password_policy holds, and the usual where that says nothing. */
export const passwordPolicyOf = (set: Settings<PasswordPolicy>): PasswordPolicy => ({
  ...usualPasswordPolicy,
  ...given(usualPasswordPolicy, set),
});

/** Likewise of column session_policy. */
export const sessionPolicyOf = (set: Settings<SessionPolicy>): SessionPolicy => ({
  ...usualSessionPolicy,
  ...given(usualSessionPolicy, set),
});

/** What column password_policy holds when `change` has been made; what that leaves out stays. Throws VALIDATION_ERROR. */
export function changedPasswordPolicy(set: Settings<PasswordPolicy>, change: Settings<PasswordPolicy>) {
  const changed = { ...set, ...given(usualPasswordPolicy, change) };
  const { minLength, maxLength } = passwordPolicyOf(changed);
  if (minLength > maxLength) {
    const [field, message] =
      change.minLength === undefined
        ? ["max_length", `must not be less than min_length, which is ${minLength}`]
        : ["min_length", `must not be greater than max_length, which is ${maxLength}`];
    throw invalid([{ field: `password_policy.${field}`, message }]);
  }
  return changed;
}

/** Likewise of column session_policy. */
export const changedSessionPolicy = (set: Settings<SessionPolicy>, change: Settings<SessionPolicy>) => ({
  ...set,
  ...given(usualSessionPolicy, change),
});

/** The fields of a policy that hold something, and nothing else that the object has. */
function given<Policy extends object>(policy: Policy, settings: Settings<Policy>): Partial<Policy> {
  const names = Object.keys(policy) as (keyof Policy)[];
  return Object.fromEntries(
    names.filter((name) => settings[name] !== undefined).map((name) => [name, settings[name]]),
  ) as Partial<Policy>;
}
