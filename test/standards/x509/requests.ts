import { sign } from "node:crypto";
import {
  bitString,
  contextTag,
  integerFromHex,
  octetString,
  oid,
  sequence,
  tags,
  tlv,
} from "../../../src/standards/der.ts";
import { encodeName } from "../../../src/standards/x509/distinguished-name.ts";
import type { KeyPair } from "../../../src/standards/x509/key-pairs.ts";
import { signingAlgorithmOf } from "../../../src/standards/x509/signing.ts";
import { noName } from "./issuing.ts";

/** Certificate signing requests, byte by byte, so that any part of one can be another than it should be. */
export interface RequestParts {
  readonly version: Uint8Array;
  readonly subject: Uint8Array;
  /** SubjectPublicKeyInfo. */
  readonly publicKey: Uint8Array;
  /** What follows the key: [0] with the attributes. */
  readonly rest: readonly Uint8Array[];
  /** AlgorithmIdentifier. */
  readonly algorithm: Uint8Array;
  readonly sign: (signed: Uint8Array) => Uint8Array;
  /** What follows the signature. */
  readonly tail: readonly Uint8Array[];
}

/** A request in DER, usual in all but what is given. */
export function requestDer({ privateKey, publicKey }: KeyPair, parts: Partial<RequestParts> = {}): Buffer {
  const usual = signingAlgorithmOf(privateKey);
  const whole: RequestParts = {
    version: integerFromHex("0"),
    subject: encodeName({ ...noName, commonName: "www.example.com" }),
    publicKey: publicKey.export({ format: "der", type: "spki" }),
    rest: [attributes()],
    algorithm: usual.identifier,
    sign: (signed) => sign(usual.hash, signed, privateKey),
    tail: [],
    ...parts,
  };
  const signed = sequence(whole.version, whole.subject, whole.publicKey, ...whole.rest);
  return sequence(signed, whole.algorithm, bitString(whole.sign(signed)), ...whole.tail);
}

/** Attributes, each in DER. */
export const attributes = (...list: readonly Uint8Array[]): Buffer => tlv(contextTag(0), ...list);

export const attribute = (type: string, ...values: readonly Uint8Array[]): Buffer =>
  sequence(oid(type), tlv(tags.set, ...values));

export const extensionRequest = "1.2.840.113549.1.9.14";

/** The extension that asks for host names. */
export const hostNames = (...names: readonly string[]): Buffer =>
  sequence(oid("2.5.29.17"), octetString(sequence(...names.map((name) => tlv(0x82, Buffer.from(name, "latin1"))))));

export function requestPem(der: Uint8Array, label = "CERTIFICATE REQUEST"): string {
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}
