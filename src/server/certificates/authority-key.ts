import type { Issuer } from "../../standards/x509/certificates.ts";
import type { NameConstraints } from "../../standards/x509/name-constraints.ts";
import type { Queries } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";

/** An authority that can sign at this moment, whatever its status. */
export interface OpenAuthority {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  /** expired follows from the time. */
  readonly status: "active" | "disabled" | "expired" | "revoked";
  readonly issuer: Issuer;
  readonly notAfter: Date;
  readonly maxPathLength: number | undefined;
  /** PEM of the certificates above it. */
  readonly chainPem: string;
  /** Its own and those of all authorities above it. */
  readonly nameConstraints: readonly NameConstraints[];
}

/** Opens the key of an authority of an organization; undefined when there is no such authority there. */
export async function openAuthority(
  _queries: Queries,
  _seal: Seal,
  _organizationId: string,
  _id: string,
): Promise<OpenAuthority | undefined> {
  throw new Error("not yet");
}
