import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ClientGone } from "./body.ts";
import { cacheHeaders, type Edition, isKnown } from "./caching.ts";
import { sendError } from "./json-answers.ts";
import type { PublishedCrl } from "./status-source.ts";

const dayMs = 86_400_000;
/** A list is built anew when something is revoked, so nobody should keep one for long. */
const crlSeconds = 300;
/** The certificate of an authority never changes. */
const certificateSeconds = 86_400;

/**
 * Sends a revocation list piece by piece, as fast as the client takes them. Rejects when it cannot be read to its end,
 * with ClientGone when the client is the reason.
 */
export async function sendCrl(
  request: IncomingMessage,
  response: ServerResponse,
  crl: PublishedCrl | undefined,
): Promise<void> {
  if (crl === undefined) return sendError(response, "RESOURCE_NOT_FOUND");
  const { sha256, size, thisUpdate, nextUpdate } = crl;
  const edition = { sha256, lastModified: thisUpdate, expires: nextUpdate, maxAgeSeconds: crlSeconds };
  if (!beginDocument(request, response, edition, "application/pkix-crl", size)) return;
  try {
    await pipeline(Readable.from(crl.read(), { objectMode: false }), response);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
    throw new ClientGone("the client went away", { cause: error });
  }
}

/** Sends the certificate of an authority. */
export function sendCertificate(
  request: IncomingMessage,
  response: ServerResponse,
  certificate: Uint8Array | undefined,
): void {
  if (certificate === undefined) return sendError(response, "RESOURCE_NOT_FOUND");
  const sha256 = createHash("sha256").update(certificate).digest("hex");
  const edition = { sha256, expires: new Date(Date.now() + dayMs), maxAgeSeconds: certificateSeconds };
  if (!beginDocument(request, response, edition, "application/pkix-cert", certificate.length)) return;
  response.end(certificate);
}

/** False when that was all: the client has the document already, or asked for the headers only. */
function beginDocument(
  request: IncomingMessage,
  response: ServerResponse,
  edition: Edition,
  contentType: string,
  length: number,
): boolean {
  const isNews = !isKnown(request, edition);
  const content = { "content-type": contentType, "content-length": length, "x-content-type-options": "nosniff" };
  response.writeHead(isNews ? 200 : 304, { ...(isNews ? content : {}), ...cacheHeaders(edition) });
  if (isNews && request.method === "GET") return true;
  response.end();
  return false;
}
