import "reflect-metadata";
import { verify, X509Certificate } from "node:crypto";
import { BasicOCSPResponse, type CertStatus, OCSPResponse } from "@peculiar/asn1-ocsp";
import { AsnConvert } from "@peculiar/asn1-schema";

/** What an answer says, as another reader than ours understands it. */
export interface ReadResponse {
  /** OCSPResponseStatus: 0 is successful. */
  readonly error: number;
  readonly keyHash: string;
  readonly producedAt: Date;
  readonly answers: readonly {
    readonly serialNumber: string;
    /** "good", "unknown", or when and by which CRLReason it was revoked. */
    readonly status: string;
    readonly thisUpdate: Date;
    readonly nextUpdate: Date;
    readonly archiveCutoff: string | undefined;
  }[];
  readonly nonce: string | undefined;
  /** Whether the certificate that comes with it has signed it. */
  readonly isSigned: boolean;
}

const hex = (bytes: ArrayBuffer | Uint8Array) => Buffer.from(bytes as ArrayBuffer).toString("hex");

export function readResponse(bytes: Uint8Array): ReadResponse {
  const { responseStatus, responseBytes } = AsnConvert.parse(bytes, OCSPResponse);
  if (responseBytes === undefined) {
    const nothing = { keyHash: "", producedAt: new Date(0), answers: [], nonce: undefined, isSigned: false };
    return { error: responseStatus, ...nothing };
  }
  const basic = AsnConvert.parse(responseBytes.response.buffer, BasicOCSPResponse);
  const data = basic.tbsResponseData;
  const signer = new X509Certificate(Buffer.from(AsnConvert.serialize(basic.certs?.[0])));
  const signed = Buffer.from(basic.tbsResponseDataRaw ?? new ArrayBuffer(0));
  const nonce = data.responseExtensions?.find(({ extnID }) => extnID === "1.3.6.1.5.5.7.48.1.2");
  return {
    error: responseStatus,
    keyHash: hex(data.responderID.byKey?.buffer ?? new ArrayBuffer(0)),
    producedAt: data.producedAt,
    answers: data.responses.map(({ certID, certStatus, thisUpdate, nextUpdate, singleExtensions }) => ({
      serialNumber: hex(certID.serialNumber),
      status: statusOf(certStatus),
      thisUpdate,
      nextUpdate: nextUpdate ?? new Date(0),
      archiveCutoff: singleExtensions?.map(({ extnID, extnValue }) => `${extnID} ${hex(extnValue.buffer)}`).join(),
    })),
    nonce: nonce === undefined ? undefined : hex(nonce.extnValue.buffer),
    isSigned: verify("sha256", signed, signer.publicKey, Buffer.from(basic.signature)),
  };
}

function statusOf({ good, revoked }: CertStatus): string {
  if (revoked === undefined) return good === null ? "good" : "unknown";
  return `revoked ${revoked.revocationTime.toISOString()} ${revoked.revocationReason?.reason}`;
}
