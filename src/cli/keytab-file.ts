import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, rename, rm, writeFile } from "node:fs/promises";
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

/** Replaces a file whole, readable by its owner only: who reads finds the old one or the new one. */
export async function writeKeytabFile(file: string, bytes: Uint8Array): Promise<void> {
  const there = await lstat(file).catch(() => undefined);
  if (there?.isFile() === false) throw usage(`${file} is there, and is no file`);
  const fresh = `${file}.${randomUUID()}`;
  try {
    await writeFile(fresh, bytes, { flag: "wx", mode: 0o600, flush: true });
    await rename(fresh, file);
  } catch (error) {
    await rm(fresh, { force: true });
    throw usage(`cannot write ${file} (${(error as NodeJS.ErrnoException).code})`);
  }
}
