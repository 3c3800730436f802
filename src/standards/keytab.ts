import { createHash } from "node:crypto";
import { enctypeName } from "./enctypes.ts";
import { type KeytabEntry, KeytabError, type KeytabFormat, readEntry, type Span } from "./keytab-entry.ts";

/**
 * Keytab files, versions 0x0501 and 0x0502 (MIT Kerberos, "Keytab file format"): a header of two bytes, then records,
 * each a length of 32 bits and so many bytes. A negative length is a hole, where an entry was removed; length 0 ends the
 * file. MIT itself takes any damage for the end of the file and lists what comes before. Here every field must lie
 * within its record and every record within the file, so that a file cut short is not taken for an older one.
 */

export { type KeytabEntry, KeytabError } from "./keytab-entry.ts";

interface Contents extends KeytabFormat {
  /** In the order of the file. */
  readonly entries: readonly [KeytabEntry, ...KeytabEntry[]];
}

export interface Keytab extends Contents {
  /** Of the first entry. With many principals in the file it is a label for it (G-6.2). */
  readonly principal: string;
  /** Of the first entry. */
  readonly realm: string;
  /** The highest that `principal` has. */
  readonly kvno: number;
  /** The names of all types in the file, each once, in its order: an old or secondary key opens doors too. */
  readonly encryptionTypes: readonly string[];
  /** SHA-256 of the file, 64 lower-case hexadecimal digits. */
  readonly hash: string;
}

export const maxKeytabBytes = 1024 * 1024;
export const maxKeytabEntries = 10_000;
const headerLength = 2;

/** Reads a whole file. Throws a KeytabError for anything but a sound keytab with an entry; key lengths are not judged. */
export function parseKeytab(bytes: Uint8Array): Keytab {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (file.length > maxKeytabBytes) {
    throw new KeytabError(maxKeytabBytes, `a keytab of more than ${maxKeytabBytes} bytes is not read`);
  }
  const contents = readFile(file);
  const { entries } = contents;
  const [{ principal, realm }] = entries;
  const kvnos = entries.filter((entry) => entry.principal === principal).map(({ kvno }) => kvno);
  return {
    ...contents,
    principal,
    realm,
    kvno: Math.max(...kvnos),
    encryptionTypes: [...new Set(entries.map(({ enctype }) => enctypeName(enctype)))],
    hash: createHash("sha256").update(file).digest("hex"),
  };
}

/** The key of an entry of the file that `bytes` are, for a keyed fingerprint; a view, not a copy. */
export const keyOf = (bytes: Uint8Array, { key: { offset, length } }: KeytabEntry): Uint8Array =>
  bytes.subarray(offset, offset + length);

function readFile(file: Buffer): Contents {
  const version = versionOf(file);
  try {
    return version === 2 ? readAs(file, { version, byteOrder: "big" }) : readVersion1(file);
  } catch (error) {
    const replaced = file.indexOf("\ufffd");
    if (!(error instanceof KeytabError) || replaced === -1) throw error;
    throw new KeytabError(replaced, "the file was damaged by a conversion to text and back");
  }
}

function versionOf(file: Buffer): 1 | 2 {
  const [first, second] = file;
  if (first === 5 && (second === 1 || second === 2)) return second;
  throw new KeytabError(first === 5 ? 1 : 0, whatItIs(file));
}

function whatItIs(file: Buffer): string {
  if (file.length === 0) return "the file is empty";
  if (startsWith(file, "-----BEGIN") || startsWith(file, "\x30\x82")) {
    return "this is a certificate or its key, not a keytab";
  }
  if (startsWith(file, "\x05\x03") || startsWith(file, "\x05\x04")) return "this is a credential cache, not a keytab";
  if (file.every((byte) => (byte >= 0x20 && byte < 0x7f) || (byte >= 9 && byte <= 13))) {
    return "this is text, not a keytab: perhaps what klist printed, or base64 once too often";
  }
  return "a keytab begins with the bytes 05 02, or 05 01";
}

const startsWith = (file: Buffer, bytes: string) => file.toString("latin1", 0, bytes.length) === bytes;

/** In the byte order in which the whole file is sound; no tool writes one that is sound in both. */
function readVersion1(file: Buffer): Contents {
  const faults: KeytabError[] = [];
  for (const byteOrder of ["little", "big"] as const) {
    try {
      return readAs(file, { version: 1, byteOrder });
    } catch (error) {
      if (!(error instanceof KeytabError)) throw error;
      faults.push(error);
    }
  }
  // The right order leads further into the file.
  throw faults.reduce((further, other) => (other.offset > further.offset ? other : further));
}

function readAs(file: Buffer, format: KeytabFormat): Contents {
  const entries: KeytabEntry[] = [];
  for (const content of recordsOf(file, format)) {
    if (entries.length === maxKeytabEntries) {
      throw new KeytabError(content.offset, `a keytab of more than ${maxKeytabEntries} entries is not read`);
    }
    entries.push(readEntry(file, content, format));
  }
  const [first, ...more] = entries;
  if (first === undefined) throw new KeytabError(headerLength, "the file has no entry");
  return { ...format, entries: [first, ...more] };
}

/** The content of each record that is no hole. */
function* recordsOf(file: Buffer, { version, byteOrder }: KeytabFormat): Generator<Span> {
  // In version 1 MIT counts 4 bytes for a name type that it does not write; after the last record they are not there.
  const missing = version === 1 ? 4 : 0;
  let at = headerLength;
  while (file.length - at >= 4) {
    const size = byteOrder === "little" ? file.readInt32LE(at) : file.readInt32BE(at);
    if (size === 0) return;
    const offset = at + 4;
    const length = Math.abs(size);
    const left = file.length - offset;
    if (length > left + missing) {
      const kind = size < 0 ? "hole" : "record";
      throw new KeytabError(at, `the ${kind} goes past the end of the file at byte ${file.length}`);
    }
    if (size > 0) yield { offset, length: Math.min(length, left) };
    at = offset + length;
  }
  if (file.subarray(at).some((byte) => byte !== 0)) {
    throw new KeytabError(at, "the last bytes are too few for a record, and no padding");
  }
}
