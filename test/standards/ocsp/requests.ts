import { createHash } from "node:crypto";
import { bitString, boolean, explicit, octetString, oid, sequence, tags, tlv } from "../../../src/standards/der.ts";

/** Object identifiers of hash algorithms, in dotted form. */
export const hashIds = {
  md5: "1.2.840.113549.2.5",
  sha1: "1.3.14.3.2.26",
  sha256: "2.16.840.1.101.3.4.2.1",
  sha384: "2.16.840.1.101.3.4.2.2",
  sha512: "2.16.840.1.101.3.4.2.3",
} as const;

export type Hash = keyof typeof hashIds;

/** What a CertID hashes of an issuer. */
export interface IssuerNames {
  readonly name: Uint8Array;
  readonly keyBits: Uint8Array;
}

export const anIssuer: IssuerNames = { name: Buffer.from("name"), keyBits: Buffer.from("key") };

interface CertIdFields {
  readonly hash?: Hash;
  readonly issuer?: IssuerNames;
  /** Contents of the INTEGER. */
  readonly serial?: Uint8Array;
  /** What stands behind the object identifier: NULL unless said. */
  readonly parameters?: readonly Uint8Array[];
}

export const derNull = tlv(tags.null);

export function certId(fields: CertIdFields = {}): Buffer {
  const { hash = "sha1", issuer = anIssuer, serial = Buffer.of(1), parameters = [derNull] } = fields;
  const digest = (bytes: Uint8Array) => octetString(createHash(hash).update(bytes).digest());
  const algorithm = sequence(oid(hashIds[hash]), ...parameters);
  return sequence(algorithm, digest(issuer.name), digest(issuer.keyBits), tlv(tags.integer, serial));
}

export const extension = (id: string, value: Uint8Array, critical?: boolean): Buffer =>
  sequence(oid(id), ...(critical === undefined ? [] : [boolean(critical)]), octetString(value));

export const nonceId = "1.3.6.1.5.5.7.48.1.2";

export const nonceExtension = (nonce: Uint8Array): Buffer => extension(nonceId, octetString(nonce));

interface RequestFields {
  readonly certIds?: readonly Uint8Array[];
  /** Of the whole request. */
  readonly extensions?: readonly Uint8Array[];
  /** Of the first certificate. */
  readonly singleExtensions?: readonly Uint8Array[];
  /** Contents of [0]. */
  readonly version?: Uint8Array;
  readonly requestorName?: Uint8Array;
  readonly isSigned?: boolean;
}

/** OCSPRequest: unless said about one certificate, without anything that is optional. */
export function ocspRequest(fields: RequestFields = {}): Buffer {
  const { certIds = [certId()], extensions, singleExtensions, version, requestorName, isSigned = false } = fields;
  const list = certIds.map((id, index) =>
    index === 0 && singleExtensions !== undefined
      ? sequence(id, explicit(0, sequence(...singleExtensions)))
      : sequence(id),
  );
  const tbs = sequence(
    ...(version === undefined ? [] : [explicit(0, version)]),
    ...(requestorName === undefined ? [] : [explicit(1, requestorName)]),
    sequence(...list),
    ...(extensions === undefined ? [] : [explicit(2, sequence(...extensions))]),
  );
  const signature = explicit(0, sequence(sequence(oid("1.2.840.10045.4.3.2")), bitString(Buffer.alloc(70))));
  return sequence(tbs, ...(isSigned ? [signature] : []));
}
