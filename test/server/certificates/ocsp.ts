import "reflect-metadata";
import { randomBytes } from "node:crypto";
import { BasicOCSPResponse, OCSPResponse, OCSPResponseStatus } from "@peculiar/asn1-ocsp";
import { AsnConvert } from "@peculiar/asn1-schema";
import { CRLReasons } from "@peculiar/asn1-x509";
import type { Server } from "../../../src/server/server.ts";
import { publicKeyBits, subjectDer } from "../../../src/standards/x509/certificates.ts";
import { type Answer, Client } from "../../harness/client.ts";
import type { TestServer } from "../../harness/server.ts";
import { certId, type Hash, nonceExtension, ocspRequest } from "../../standards/ocsp/requests.ts";
import type { AuthorityRecord } from "./authorities.ts";

/** Where the OCSP responder of a server listens. */
export const responderOf = ({ ocspAddress }: Pick<Server, "ocspAddress">): string =>
  `http://127.0.0.1:${ocspAddress?.port}`;

const derOf = (pem: string): Buffer => Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ""), "base64");

interface Asked {
  /** Without one, a new nonce; null asks without, so that the answer may come out of a memory. */
  readonly nonce?: Uint8Array | null;
  readonly hash?: Hash;
  readonly headers?: Record<string, string>;
}

/** A request about a certificate of an authority, in DER. */
export function aboutCertificate(issuer: AuthorityRecord, serialNumber: string, { nonce, hash = "sha1" }: Asked = {}) {
  const der = derOf(issuer.certificate_pem);
  const named = { name: subjectDer(der), keyBits: publicKeyBits(der) };
  const asked = certId({ hash, issuer: named, serial: Buffer.from(serialNumber, "hex") });
  const extensions = nonce === null ? {} : { extensions: [nonceExtension(nonce ?? randomBytes(32))] };
  return ocspRequest({ certIds: [asked], ...extensions });
}

/** What a responder said of one certificate; only `said` when it did not answer the question. */
export interface Said {
  /** good, revoked, unknown, or an error as in tryLater. */
  readonly said: string;
  readonly at?: Date;
  /** As in keyCompromise. */
  readonly reason?: string;
  /** In DER, of whoever signed. */
  readonly signer?: Buffer;
  readonly thisUpdate?: Date;
  readonly nextUpdate?: Date;
}

/** Asks a responder by POST. */
export async function ask(
  responder: string,
  issuer: AuthorityRecord,
  serialNumber: string,
  asked: Asked = {},
): Promise<Said> {
  const response = await fetch(responder, {
    method: "POST",
    headers: { "content-type": "application/ocsp-request", ...asked.headers },
    body: aboutCertificate(issuer, serialNumber, asked),
  });
  const body = await response.arrayBuffer();
  if (response.status !== 200) return { said: `HTTP ${response.status}` };
  return read(body);
}

function read(body: ArrayBuffer): Said {
  const { responseStatus, responseBytes } = AsnConvert.parse(body, OCSPResponse);
  if (responseBytes === undefined) return { said: OCSPResponseStatus[responseStatus] ?? String(responseStatus) };
  const basic = AsnConvert.parse(responseBytes.response.buffer, BasicOCSPResponse);
  const [single] = basic.tbsResponseData.responses;
  const [certificate] = basic.certs ?? [];
  if (single === undefined || certificate === undefined) throw new Error("neither an answer nor an error");
  const { certStatus, thisUpdate, nextUpdate } = single;
  const common = {
    thisUpdate,
    ...(nextUpdate && { nextUpdate }),
    signer: Buffer.from(AsnConvert.serialize(certificate)),
  };
  if (certStatus.revoked === undefined) return { said: certStatus.good === null ? "good" : "unknown", ...common };
  const { revocationTime, revocationReason } = certStatus.revoked;
  const reason = CRLReasons[revocationReason?.reason ?? CRLReasons.unspecified] ?? "";
  return { said: "revoked", at: revocationTime, reason, ...common };
}

/** A certificate as clients see it. */
export type CertificateRecord = AuthorityRecord;

/** Issues a server's certificate whose key is made there. */
export async function issueFrom(
  server: TestServer,
  authority: AuthorityRecord,
  by: Client = server.admin,
): Promise<CertificateRecord> {
  const { status, body } = await by.rest("POST", "/api/v1/certificates", {
    ca_id: authority.id,
    subject: { common_name: "www.example.com" },
    subject_alternative_names: { dns: ["www.example.com"] },
    key_algorithm: "ECDSA",
  });
  if (status !== 201) throw new Error(`no certificate: ${JSON.stringify(body)}`);
  return body;
}

export async function revoke(server: TestServer, { id }: CertificateRecord, reason = "superseded"): Promise<void> {
  const { status, body } = await server.admin.rest("POST", `/api/v1/certificates/${id}/revoke`, { reason });
  if (status !== 200) throw new Error(`not revoked: ${JSON.stringify(body)}`);
}

/** A probe of a responder: health, ready or live. */
export const probe = (responder: string, name: string): Promise<Answer> =>
  new Client(responder, undefined).rest("GET", `/${name}`);
