import type { DownloadCrlRequest } from "../../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import { pemPieces } from "../../standards/x509/crl.ts";
import { Refusal } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { readCrl } from "./crl-store.ts";
import { findAuthority } from "./find-authority.ts";

/** The first list of an authority is built within about as long. */
const firstListSeconds = 2;

/** The revocation list of an authority of the caller's organization, as it was built last, in pieces. */
export async function* downloadCrl(call: Call, { id, format }: DownloadCrlRequest) {
  const authority = await findAuthority(call, id);
  const crl = await readCrl(call, authority.id);
  if (crl === undefined) {
    throw new Refusal("SERVICE_UNAVAILABLE", "the certificate authority has no revocation list yet", {
      retryAfterSeconds: firstListSeconds,
    });
  }
  call.headers["etag"] = `"${crl.sha256}"`;
  if (format === "pem") {
    call.headers["content-disposition"] = `attachment; filename="${authority.id}.crl.pem"`;
    for await (const data of pemPieces(crl.read())) yield { contentType: "application/x-pem-file", data };
  } else {
    call.headers["content-disposition"] = `attachment; filename="${authority.id}.crl"`;
    if (call.source.door === "rest") call.headers["content-length"] = String(crl.size);
    for await (const data of crl.read()) yield { contentType: "application/pkix-crl", data };
  }
}
