import { type KeyKind, type KeyPair, newKeyPair } from "../../standards/x509/key-pairs.ts";
import { FairQueue } from "../fair-queue.ts";

/** Makes a key for a call of an organization. Throws as `FairQueue` does. */
export type MakesKeys = (kind: KeyKind, organizationId: string, signal: AbortSignal) => Promise<KeyPair>;

/**
 * Makes keys for calls. One of RSA takes up to seconds of one of libuv's few threads, on which all else is signed too, OCSP
 * answers and logins among it, and connections are opened: so they are made one at a time.
 */
export function makesKeys(): MakesKeys {
  const queue = new FairQueue("too many RSA keys are being made");
  return (kind, organizationId, signal) =>
    kind.algorithm === "RSA" ? queue.run(organizationId, signal, () => newKeyPair(kind)) : newKeyPair(kind);
}
