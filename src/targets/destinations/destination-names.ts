/** All destinations that there are, by the names of their integrations. A new one is one line here, and one in destinations.ts. */
export const destinationNames = ["aws-secrets-manager", "github-actions", "kubernetes", "vault-kv", "webhook"] as const;
