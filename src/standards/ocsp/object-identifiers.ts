/** Object identifiers of RFC 6960, in dotted form. */
export const ocspIds = {
  basicResponse: "1.3.6.1.5.5.7.48.1.1",
  nonce: "1.3.6.1.5.5.7.48.1.2",
  acceptableResponses: "1.3.6.1.5.5.7.48.1.4",
  archiveCutoff: "1.3.6.1.5.5.7.48.1.6",
  preferredSignatureAlgorithms: "1.3.6.1.5.5.7.48.1.8",
} as const;
