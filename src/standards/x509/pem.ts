/** DER in PEM (RFC 7468), lines of 64 characters, with a line break at the end. */
export function toPem(label: "CERTIFICATE" | "X509 CRL" | "PRIVATE KEY", der: Uint8Array): string {
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}
