/** What is required of a password. Lengths are in characters: code points of Unicode, as typed. */
export interface PasswordPolicy {
  readonly minLength: number;
  readonly maxLength: number;
  readonly requireUppercase: boolean;
  readonly requireLowercase: boolean;
  readonly requireNumbers: boolean;
  /** A character that is neither a letter nor a digit; a space is one, an accent is part of its letter. */
  readonly requireSpecial: boolean;
}

/** What a password lacks, in words that go after "the password needs"; empty when it is as required. Never holds any of it. */
export function lackingIn(password: string, policy: PasswordPolicy): string[] {
  const length = [...password].length;
  const { minLength, maxLength } = policy;
  const lacking: [isLacking: boolean, what: string][] = [
    [length < minLength, `${minLength} characters or more`],
    [length > maxLength, `${maxLength} characters or fewer`],
    [policy.requireUppercase && !/\p{Lu}/u.test(password), "an upper-case letter"],
    [policy.requireLowercase && !/\p{Ll}/u.test(password), "a lower-case letter"],
    [policy.requireNumbers && !/\p{Nd}/u.test(password), "a digit"],
    [
      policy.requireSpecial && !/[^\p{L}\p{M}\p{Nd}]/u.test(password),
      "a character that is neither a letter nor a digit",
    ],
  ];
  return lacking.flatMap(([isLacking, what]) => (isLacking ? [what] : []));
}
