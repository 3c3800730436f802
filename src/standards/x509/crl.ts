import { createSign } from "node:crypto";
import {
  bitString,
  enumerated,
  explicit,
  generalizedTime,
  header,
  integerFromHex,
  octetString,
  oid,
  primitiveContextTag,
  sequence,
  tags,
  tlv,
  utcTime,
} from "../der.ts";
import { type Issuer, keyIdentifier, subjectDer } from "./certificates.ts";
import { type RevocationReason, revocationReasons } from "./revocation-reasons.ts";
import { sign, signingAlgorithmOf } from "./signing.ts";

/** A revoked certificate, as its issuer's revocation list has it. */
export interface CrlEntry {
  /** Hexadecimal digits, of no more than 20 octets (RFC 5280 section 4.1.2.2). */
  readonly serialNumber: string;
  readonly revokedAt: Date;
  readonly reason: RevocationReason;
}

/** The entries of a list in DER, wherever they are kept: they need not be in memory at once. */
export interface EncodedEntries {
  /** Of all of them, in bytes; 0 when there are none. */
  readonly length: number;
  /** All bytes in their order, in pieces of any size. */
  read(): AsyncIterable<Uint8Array>;
}

export interface CrlDraft {
  /** cRLNumber: greater than that of all lists of the issuer before (RFC 5280 section 5.2.3). */
  readonly number: number;
  readonly thisUpdate: Date;
  readonly nextUpdate: Date;
  readonly entries: EncodedEntries;
}

/** What stands around the entries of a signed list: the DER of the list is `head`, the entries, and `tail`. */
export interface CrlFrame {
  readonly head: Buffer;
  readonly tail: Buffer;
}

/**
 * Entries in DER, one after the other (RFC 5280 section 5.1.2.6). Written into one buffer: a list may have millions of them.
 * Throws RangeError for a serial number that is too long.
 */
export function encodeEntries(entries: readonly CrlEntry[]): Buffer {
  const bytes = Buffer.allocUnsafe(entries.length * mostOctetsPerEntry);
  let length = 0;
  for (const entry of entries) length = writeEntry(bytes, length, entry);
  return bytes.subarray(0, length);
}

/**
 * Signs a revocation list, version 2 with cRLNumber and authority key identifier (RFC 5280 section 5). The entries are read
 * once, and one piece of them is in memory at a time; but an Ed25519 key signs no hash (RFC 8032 section 5.1.6), so that its
 * list is in memory twice for a moment.
 */
export async function signCrl({ certificate, privateKey }: Issuer, draft: CrlDraft): Promise<CrlFrame> {
  const { identifier, hash } = signingAlgorithmOf(privateKey);
  const { entries } = draft;
  const list = entries.length === 0 ? none : header(tags.sequence, entries.length);
  const before = Buffer.concat([
    version2,
    identifier,
    subjectDer(certificate),
    time(draft.thisUpdate),
    time(draft.nextUpdate),
    list,
  ]);
  const after = explicit(
    0,
    sequence(
      extension(authorityKeyIdentifier, sequence(tlv(primitiveContextTag(0), keyIdentifier(certificate)))),
      extension(crlNumber, integerFromHex(draft.number.toString(16))),
    ),
  );
  const signedLength = before.length + entries.length + after.length;
  const signedHead = Buffer.concat([header(tags.sequence, signedLength), before]);
  const signed = inOrder(signedHead, entries, after);
  const signature =
    hash === null
      ? await sign(privateKey, await whole(signed))
      : (await fedWith(createSign(hash), signed)).sign(privateKey);
  const tail = Buffer.concat([after, identifier, bitString(signature)]);
  const length = signedHead.length + entries.length + tail.length;
  return { head: Buffer.concat([header(tags.sequence, length), signedHead]), tail };
}

/** A list in PEM (RFC 7468 section 6), made of its DER in pieces of any size, one in memory at a time. */
export async function* pemPieces(der: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  yield Buffer.from("-----BEGIN X509 CRL-----\n");
  let rest: Uint8Array = none;
  for await (const piece of der) {
    const bytes = Buffer.concat([rest, piece]);
    const cut = bytes.length - (bytes.length % octetsPerLine);
    rest = bytes.subarray(cut);
    yield linesOf(bytes.subarray(0, cut));
  }
  yield linesOf(rest);
  yield Buffer.from("-----END X509 CRL-----\n");
}

/** Which are 64 characters in base64. */
const octetsPerLine = 48;

const linesOf = (bytes: Uint8Array) =>
  Buffer.from(
    Buffer.from(bytes)
      .toString("base64")
      .replaceAll(/.{1,64}/g, "$&\n"),
    "latin1",
  );

const none = Buffer.alloc(0);
const version2 = integerFromHex("1");
const authorityKeyIdentifier = oid("2.5.29.35");
const crlNumber = oid("2.5.29.20");
const reasonCode = oid("2.5.29.21");

/** Not critical: whoever does not know it may use the list. */
const extension = (id: Buffer, value: Buffer) => sequence(id, octetString(value));

/** RFC 5280 section 5.1.2.4: UTCTime for as long as it lasts. */
const time = (at: Date) => (at.getUTCFullYear() < 2050 ? utcTime(at) : generalizedTime(at));

/** The extensions of an entry. None say what "unspecified" says (RFC 5280 section 5.3.1). */
const reasonExtensions = Object.fromEntries(
  Object.entries(revocationReasons).map(([reason, code]) => [
    reason,
    code === revocationReasons.unspecified ? none : sequence(extension(reasonCode, enumerated(code))),
  ]),
) as Record<RevocationReason, Buffer>;

/** One more than the octets of a serial number, for its sign. */
const mostSerialOctets = 21;
/** The header, the serial number, GeneralizedTime, and the reason. */
const mostOctetsPerEntry =
  2 + 2 + mostSerialOctets + 17 + Math.max(...Object.values(reasonExtensions).map(({ length }) => length));

/** Writes an entry from a position on; answers where it ends. Every length in it is below 128, which is one octet. */
function writeEntry(bytes: Buffer, from: number, { serialNumber, revokedAt, reason }: CrlEntry): number {
  let at = writeSerialNumber(bytes, from + 2, serialNumber);
  at = writeTime(bytes, at, revokedAt);
  const extensions = reasonExtensions[reason];
  at += extensions.copy(bytes, at);
  bytes[from] = tags.sequence;
  bytes[from + 1] = at - from - 2;
  return at;
}

function writeSerialNumber(bytes: Buffer, from: number, serialNumber: string): number {
  const bare = serialNumber.startsWith("0") ? serialNumber.replace(/^0+(?=.)/, "") : serialNumber;
  // What begins with a bit that is set would be negative.
  const digits = bare.length % 2 === 1 ? `0${bare}` : bare >= "8" ? `00${bare}` : bare;
  if (digits.length > 2 * mostSerialOctets) throw new RangeError("a serial number has more than 20 octets");
  const octets = bytes.write(digits, from + 2, "hex");
  bytes[from] = tags.integer;
  bytes[from + 1] = octets;
  return from + 2 + octets;
}

/** The same as `time` makes, in a tenth of its time. */
function writeTime(bytes: Buffer, from: number, at: Date): number {
  const year = at.getUTCFullYear();
  const isUtcTime = year < 2050;
  let end = from + 2;
  if (!isUtcTime) end = writeTwoDigits(bytes, end, Math.floor(year / 100));
  end = writeTwoDigits(bytes, end, year % 100);
  end = writeTwoDigits(bytes, end, at.getUTCMonth() + 1);
  end = writeTwoDigits(bytes, end, at.getUTCDate());
  end = writeTwoDigits(bytes, end, at.getUTCHours());
  end = writeTwoDigits(bytes, end, at.getUTCMinutes());
  end = writeTwoDigits(bytes, end, at.getUTCSeconds());
  bytes[end] = "Z".charCodeAt(0);
  bytes[from] = isUtcTime ? tags.utcTime : tags.generalizedTime;
  bytes[from + 1] = end - from - 1;
  return end + 1;
}

function writeTwoDigits(bytes: Buffer, at: number, value: number): number {
  const zero = 0x30;
  bytes[at] = zero + Math.floor(value / 10);
  bytes[at + 1] = zero + (value % 10);
  return at + 2;
}

async function* inOrder(before: Buffer, entries: EncodedEntries, after: Buffer): AsyncGenerator<Uint8Array> {
  yield before;
  yield* entries.read();
  yield after;
}

async function fedWith<Sink extends { update(bytes: Uint8Array): unknown }>(
  sink: Sink,
  pieces: AsyncIterable<Uint8Array>,
): Promise<Sink> {
  for await (const piece of pieces) sink.update(piece);
  return sink;
}

async function whole(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}
