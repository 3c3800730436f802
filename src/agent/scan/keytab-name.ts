import { isAbsolute } from "node:path";

/** Kinds of keytabs that are files (MIT, krb5_kt_resolve). Others are in memory, or in keyrings. */
const kinds = ["FILE", "WRFILE"];

/**
 * The path, or the pattern of paths, of a keytab as settings of Kerberos name it: `FILE:/etc/krb5.keytab`, with
 * parameters as in `%{uid}`. Undefined when it is no file, or not one that can be known from here.
 */
export function pathOfKeytabName(name: string, environment: NodeJS.ProcessEnv): string | undefined {
  const [, kind = "FILE", residual = ""] = /^(?:([A-Za-z][A-Za-z0-9]*):)?(.*)$/s.exec(name.trim()) ?? [];
  if (!kinds.includes(kind)) return undefined;
  // Whoever has such a keytab, it is to be found: so a user's name or number stands for any.
  const values = new Map([
    ["uid", "*"],
    ["euid", "*"],
    ["USERID", "*"],
    ["username", "*"],
    ["TEMP", environment["TMPDIR"] || "/tmp"],
    ["null", ""],
  ]);
  const path = residual.replace(/%\{(\w+)\}/g, (parameter, name: string) => values.get(name) ?? parameter);
  return isAbsolute(path) && !path.includes("%{") ? path : undefined;
}
