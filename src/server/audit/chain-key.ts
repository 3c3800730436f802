import { randomBytes } from "node:crypto";
import type { Seal } from "../seal/seal.ts";

const keyLength = 32;

/** The key from which those of the organizations' chains are derived. */
export interface InstallationChainKey {
  readonly key: Buffer;
  /** At the first start of a release that has chains. Sealed with the key, so that nobody can make it later. */
  readonly madeAt: Date;
}

/** Opens the key of all chains of the installation, which the first start makes. */
export async function installationChainKey(seal: Seal): Promise<InstallationChainKey> {
  const bytes = await seal.serviceKey("audit-chain", () => {
    const madeAt = Buffer.alloc(8);
    madeAt.writeBigUInt64BE(BigInt(Date.now()));
    return Buffer.concat([randomBytes(keyLength), madeAt]);
  });
  return { key: bytes.subarray(0, keyLength), madeAt: new Date(Number(bytes.readBigUInt64BE(keyLength))) };
}
