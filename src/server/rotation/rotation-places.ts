import type { Place } from "../seal/seal.ts";

/** Whose key seals what belongs to its rotation. */
interface Owner {
  readonly organizationId: string;
  readonly secretId: string;
}

const place =
  (kind: string) =>
  ({ organizationId, secretId }: Owner): Place => ({ organizationId, kind, recordId: secretId, version: 0 });

/** Where the credentials of a configuration are sealed to: JSON, under the secret's key. */
export const credentialsPlace = place("rotation.credentials");

/** Where the value to be is sealed to, under the secret's key. */
export const candidatePlace = place("rotation.candidate");

/** Where the candidates given up that the target may have are sealed to: a JSON array, under the secret's key. */
export const earlierCandidatesPlace = place("rotation.earlier_candidates");
