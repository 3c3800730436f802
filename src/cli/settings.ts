import { readFileSync } from "node:fs";
import { Failure, usage } from "./failure.ts";

/** A variable named HOLDFAST_…; an empty one counts as unset. */
export function setting(
  name: "URL" | "TOKEN" | "CLIENT_ID" | "CLIENT_SECRET" | "PROJECT_ID" | "CA_FILE",
): string | undefined {
  return process.env[`HOLDFAST_${name}`]?.trim() || undefined;
}

/** A server's URL without a slash at its end. */
export function serverUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw usage(`${text} is not the URL of a server, as in https://holdfast.example.org`);
  return url.href.replace(/\/+$/, "");
}

/** The private certificate authorities to trust, in PEM. */
export function certificateAuthorities(): string | undefined {
  const file = setting("CA_FILE");
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new Failure("usage", `HOLDFAST_CA_FILE: cannot read ${file} (${(error as NodeJS.ErrnoException).code})`);
  }
}
