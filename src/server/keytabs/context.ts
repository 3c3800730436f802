import type { Context } from "../context.ts";
import { CipherPolicy } from "./cipher-policy.ts";
import { Keytab, KeytabVersion } from "./keytab.ts";

export const keytabs: Context = {
  entities: [Keytab, KeytabVersion, CipherPolicy],
};
