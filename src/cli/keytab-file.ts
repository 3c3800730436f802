import { createReadStream } from "node:fs";
import { buffer } from "node:stream/consumers";
import { type Keytab, KeytabError, maxKeytabBytes, parseKeytab } from "../standards/keytab.ts";
import { readStandardInput } from "./ask.ts";
import { Failure, usage } from "./failure.ts";

/** The bytes of a file, or of standard input for "-"; not much more of them than a keytab may have. */
export function readKeytabBytes(file: string): Promise<Buffer> {
  if (file === "-") return readStandardInput();
  return buffer(createReadStream(file, { end: maxKeytabBytes })).catch((error: NodeJS.ErrnoException) => {
    throw usage(`cannot read ${file} (${error.code})`);
  });
}

/** What is in a file. Throws a Failure that names the byte where it is damaged. */
export function parsed(file: string, bytes: Uint8Array): Keytab {
  try {
    return parseKeytab(bytes);
  } catch (error) {
    throw error instanceof KeytabError ? new Failure("invalid", `${file}: ${error.message}`) : error;
  }
}
