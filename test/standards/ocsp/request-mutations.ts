import { octetString, sequence, tlv } from "../../../src/standards/der.ts";
import { certId, extension, nonceExtension, ocspRequest } from "./requests.ts";

/** Lengths that end a value, overflow, claim far more than there is, or are not in their shortest form. */
const lengths = ["00", "01", "7f", "80", "8100", "8180", "81ff", "820000", "82ffff", "83ffffff", "84ffffffff", "ff"];
const tagOctets = [0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x1f, 0x30, 0x80, 0xa0, 0xa1, 0xa2, 0xbf, 0xff];
const mostBytes = 4096;

const originals = [
  ocspRequest(),
  ocspRequest({
    certIds: [certId({ hash: "sha256", parameters: [] })],
    extensions: [nonceExtension(Buffer.alloc(32))],
  }),
  ocspRequest({ certIds: [certId({ hash: "md5" })], extensions: [nonceExtension(Buffer.alloc(128))], isSigned: true }),
  ocspRequest({ certIds: Array.from({ length: 16 }, (_, index) => certId({ serial: Buffer.alloc(20, index + 1) })) }),
  ocspRequest({
    version: Buffer.from("020100", "hex"),
    requestorName: tlv(0x82, Buffer.from("example.com")),
    singleExtensions: [extension("1.2.3", octetString(), false)],
    extensions: [extension("1.3.6.1.5.5.7.48.1.4", sequence(), true), nonceExtension(Buffer.of(1))],
    certIds: [certId({ serial: Buffer.alloc(300, 0x7f) }), certId({ serial: Buffer.of(0xff) })],
  }),
];

/** Sound requests with 1 to 8 mutations each, and octets without sense, as `random` decides. */
export function requestMutations(random: () => number): () => Buffer {
  const below = (limit: number) => Math.floor(random() * limit);
  const one = <T>(items: readonly T[]) => items[below(items.length)] as T;
  const splice = (bytes: Buffer, at: number, removed: number, added: Buffer) =>
    Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at + removed)]);
  const piece = (bytes: Buffer) => {
    const from = below(bytes.length + 1);
    return bytes.subarray(from, from + below(64));
  };
  const noise = (length: number) => Buffer.from(Array.from({ length }, () => below(256)));

  const mutations: readonly ((bytes: Buffer, at: number) => Buffer)[] = [
    (bytes, at) => splice(bytes, at, 1, Buffer.of((bytes[at] ?? 0) ^ (1 << below(8)))),
    (bytes, at) => splice(bytes, at, 1, Buffer.of((bytes[at] ?? 0) + one([-1, 1]))),
    (bytes, at) => splice(bytes, at, 1, Buffer.from(one(lengths), "hex")),
    (bytes, at) => splice(bytes, at, 1, Buffer.of(one(tagOctets))),
    (bytes, at) => splice(bytes, at, below(64), Buffer.alloc(0)),
    (bytes, at) => splice(bytes, at, 0, piece(bytes)),
    (bytes, at) => splice(bytes, at, 0, piece(one(originals))),
    (bytes, at) => splice(bytes, at, below(8), noise(below(8))),
    (bytes, at) => bytes.subarray(0, at),
    (bytes) => sequence(bytes),
    // With a length that is right again, so that the damage lies deeper.
    (bytes) => sequence(sequence(sequence(sequence(piece(bytes))))),
    (bytes) => noise(below(bytes.length)),
  ];

  return () => {
    let bytes: Buffer = Buffer.from(one(originals));
    for (let count = 1 + below(below(4) === 0 ? 8 : 2); count > 0; count -= 1) {
      bytes = one(mutations)(bytes, below(bytes.length + 1));
    }
    return bytes.subarray(0, mostBytes);
  };
}
