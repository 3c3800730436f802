import type { Pointers } from "../../standards/x509/certificates.ts";

/** Where relying parties ask about what an authority issued; `statusUrl` is where they reach the responder. */
export const pointersOf = (statusUrl: string, caId: string): Pointers => ({
  ocsp: statusUrl,
  caIssuers: `${statusUrl}/ca/${caId}.crt`,
  crl: `${statusUrl}/crl/${caId}.crl`,
});
