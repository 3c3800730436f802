import {
  bitString,
  contextTag,
  enumerated,
  explicit,
  generalizedTime,
  octetString,
  oid,
  primitiveContextTag,
  sequence,
  tlv,
} from "../der.ts";
import { type RevocationReason, revocationReasons } from "../x509/revocation-reasons.ts";
import { ocspIds } from "./object-identifiers.ts";

/** OCSP responses (RFC 6960 section 4.2) as RFC 9919 has them: times of whole seconds, the responder named by its key. */

export type CertificateStatus =
  | { readonly status: "good" | "unknown" }
  | { readonly status: "revoked"; readonly at: Date; readonly reason: RevocationReason };

/** What is said of one certificate. */
export interface SingleAnswer {
  /** CertID in DER, as the request has it: clients compare it. */
  readonly certId: Uint8Array;
  readonly certificate: CertificateStatus;
  /** The status of certificates is kept from then on: said of expired ones only (RFC 6960 section 4.4.4). */
  readonly archiveCutoff: Date | undefined;
}

/** What is said, but for who says it. */
export interface Statement {
  readonly answers: readonly SingleAnswer[];
  /** When the answers were right, which is when they were produced too. */
  readonly thisUpdate: Date;
  readonly nextUpdate: Date;
  /** Of the request. */
  readonly nonce: Uint8Array | undefined;
}

const failure = (code: number) => sequence(enumerated(code));

/** The answers that say why there is none: five octets each, without signature (OCSPResponseStatus). */
export const errorResponses = {
  malformedRequest: failure(1),
  internalError: failure(2),
  tryLater: failure(3),
  unauthorized: failure(6),
} as const;

export type ResponseError = keyof typeof errorResponses;

const good = tlv(primitiveContextTag(0));
const unknown = tlv(primitiveContextTag(2));
const nonceId = oid(ocspIds.nonce);
const archiveCutoffId = oid(ocspIds.archiveCutoff);
const basicResponseId = oid(ocspIds.basicResponse);
const successful = enumerated(0);

/** What all answers of a responder have in common, in DER. */
export interface ResponderParts {
  readonly id: Uint8Array;
  readonly signatureAlgorithm: Uint8Array;
  readonly certificates: Uint8Array;
}

/**
 * `keyHash` is SHA-1 of the bits of the responder's public key, `signatureAlgorithm` its AlgorithmIdentifier and
 * `certificate` its certificate, both in DER.
 */
export const responderParts = (
  keyHash: Uint8Array,
  signatureAlgorithm: Uint8Array,
  certificate: Uint8Array,
): ResponderParts => ({
  id: explicit(2, octetString(keyHash)),
  signatureAlgorithm,
  certificates: explicit(0, sequence(certificate)),
});

/** ResponseData: what is to be signed. */
export function encodeResponseData(responder: ResponderParts, statement: Statement): Buffer {
  const { answers, nonce } = statement;
  const thisUpdate = generalizedTime(statement.thisUpdate);
  const nextUpdate = explicit(0, generalizedTime(statement.nextUpdate));
  const responses = answers.map(({ certId, certificate, archiveCutoff }) => {
    const status = encodeStatus(certificate);
    if (archiveCutoff === undefined) return sequence(certId, status, thisUpdate, nextUpdate);
    const cutoff = sequence(archiveCutoffId, octetString(generalizedTime(archiveCutoff)));
    return sequence(certId, status, thisUpdate, nextUpdate, explicit(1, sequence(cutoff)));
  });
  const parts = [responder.id, thisUpdate, sequence(...responses)];
  if (nonce !== undefined) parts.push(explicit(1, sequence(sequence(nonceId, octetString(octetString(nonce))))));
  return sequence(...parts);
}

/** OCSPResponse, of ResponseData and its signature. */
export function encodeResponse(responder: ResponderParts, responseData: Uint8Array, signature: Uint8Array): Buffer {
  const basic = sequence(responseData, responder.signatureAlgorithm, bitString(signature), responder.certificates);
  return sequence(successful, explicit(0, sequence(basicResponseId, octetString(basic))));
}

function encodeStatus(certificate: CertificateStatus): Buffer {
  if (certificate.status !== "revoked") return certificate.status === "good" ? good : unknown;
  const revokedAt = generalizedTime(certificate.at);
  const code = revocationReasons[certificate.reason];
  // "unspecified" should be left out (RFC 5280 section 5.3.1).
  if (code === 0) return tlv(contextTag(1), revokedAt);
  return tlv(contextTag(1), revokedAt, explicit(0, enumerated(code)));
}
