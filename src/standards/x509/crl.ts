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
  /** Hexadecimal digits. */
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

/** Entries in DER, one after the other (RFC 5280 section 5.1.2.6). */
export const encodeEntries = (entries: readonly CrlEntry[]): Buffer => Buffer.concat(entries.map(encodeEntry));

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

function encodeEntry({ serialNumber, revokedAt, reason }: CrlEntry): Buffer {
  return sequence(integerFromHex(serialNumber), time(revokedAt), reasonExtensions[reason]);
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
