import { z } from "zod";
import { TargetError } from "../target-error.ts";
import { jsonOf } from "./json-answer.ts";
import type { VaultClient } from "./vault-client.ts";

/** One field of a secret in a secrets engine KV. */
export interface KvField {
  readonly mount: readonly string[];
  readonly path: readonly string[];
  readonly field: string;
  readonly kvVersion: number;
}

/** Without options it is of version 1. */
const Mount = z.object({
  data: z.object({ type: z.string(), options: z.object({ version: z.string().optional() }).nullish() }),
});
/** The second is how the first was called. */
const kvTypes = ["kv", "generic"];

/** Throws unless there is a secrets engine KV of the version that it is said to have, which takes the requests as they are meant. */
export async function checkKvVersion(vault: VaultClient, { mount, path, kvVersion }: KvField): Promise<void> {
  const answer = await vault.get(["sys", "internal", "ui", "mounts", ...mount, ...path]);
  const { type, options } = jsonOf("Vault", answer, Mount).data;
  const version = options?.version ?? "1";
  const isKv = kvTypes.includes(type);
  if (isKv && version === String(kvVersion)) return;
  const fault = isKv
    ? `has the version ${/^\d$/.test(version) ? version : "?"}, not ${kvVersion}; kv_version says which`
    : "is no secrets engine KV";
  throw new TargetError("refused", `${isKv ? "the secrets engine " : ""}${mount.join("/")} of Vault ${fault}`, {
    permanent: true,
    unchanged: true,
  });
}

/** Why an entry that this link did not make is left alone. */
export function foreignInVault({ mount, path, field }: KvField): TargetError {
  const message = `${[...mount, ...path].join("/")} in Vault has a field ${field} that this link did not make; it is left as it is`;
  return new TargetError("foreign", message, { permanent: true, unchanged: true });
}
