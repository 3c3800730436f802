/** CRLReason (RFC 5280 section 5.3.1), as far as it can be given here. */
export const revocationReasons = {
  unspecified: 0,
  key_compromise: 1,
  ca_compromise: 2,
  affiliation_changed: 3,
  superseded: 4,
  cessation_of_operation: 5,
  privilege_withdrawn: 9,
} as const;

export type RevocationReason = keyof typeof revocationReasons;
