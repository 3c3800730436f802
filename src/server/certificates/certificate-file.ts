import { createHash } from "node:crypto";
import { toPem } from "../../standards/x509/pem.ts";
import { type CertificateFields, chainOf, nameOf } from "./certificate-record.ts";

/** A certificate as it is saved. */
export interface CertificateFile {
  readonly name: string;
  readonly contentType: string;
  readonly bytes: Buffer;
  /** SHA-256 in hexadecimal digits. */
  readonly hash: string;
}

/** What file systems take for a name, with room for the extension. */
const longestName = 250;

/** A certificate with its chain in PEM (RFC 8555 section 9.1), or without it in DER (RFC 2585 section 3). */
export function fileOf(certificate: CertificateFields, format: string): CertificateFile {
  const isDer = format === "der";
  const bytes = isDer
    ? certificate.certificate
    : Buffer.from(toPem("CERTIFICATE", certificate.certificate) + chainOf(certificate));
  const name = nameOf(certificate)
    .replaceAll(/[^A-Za-z0-9._-]/gu, "_")
    .slice(0, longestName);
  return {
    name: `${name}${isDer ? ".cer" : ".pem"}`,
    contentType: isDer ? "application/pkix-cert" : "application/pem-certificate-chain",
    bytes,
    hash: createHash("sha256").update(bytes).digest("hex"),
  };
}
