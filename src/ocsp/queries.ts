import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { maxRequestBytes } from "../standards/ocsp/request.ts";
import { errorResponses } from "../standards/ocsp/response.ts";
import type { Answer, Answers } from "./answers.ts";
import { readBody } from "./body.ts";
import { cacheHeaders, isKnown } from "./caching.ts";
import { decodeQuery } from "./target.ts";

/** How long a cache may keep an answer: a revocation takes that long to show behind one (G-13.3). */
const maxAgeSeconds = 300;

/** Answers a query by POST, or one by GET whose path has `text`. Rejects when a body does not come to its end. */
export async function answerQuery(
  request: IncomingMessage,
  response: ServerResponse,
  text: string,
  answers: Answers,
): Promise<void> {
  const query = request.method === "POST" ? await readBody(request, maxRequestBytes) : decodeQuery(text);
  const answer: Answer = query === undefined ? { error: "malformedRequest" } : await answers.answer(query);
  // What is left of a body that is too large is not waited for.
  if (!request.complete) response.setHeader("connection", "close");
  sendAnswer(request, response, answer);
}

/** HTTP always succeeds: what went wrong is said in the language of OCSP. */
function sendAnswer(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  if ("error" in answer) return send(response, errorResponses[answer.error], { "cache-control": "no-store" });
  const { der, thisUpdate, nextUpdate } = answer;
  if (request.method === "POST" || answer.hasNonce) {
    // no-store and no-cache are not for answers that are signed (RFC 9919).
    return send(response, der, { "cache-control": "private, max-age=0" });
  }
  const edition = { sha256: hash("sha256", der), lastModified: thisUpdate, expires: nextUpdate, maxAgeSeconds };
  // By its tag only: thisUpdate is that of its minute, in which another answer may have said good.
  if (isKnown(request, { sha256: edition.sha256 })) response.writeHead(304, cacheHeaders(edition)).end();
  else send(response, der, cacheHeaders(edition));
}

function send(response: ServerResponse, der: Uint8Array, headers: Readonly<Record<string, string>>): void {
  response.writeHead(200, { "content-type": "application/ocsp-response", "content-length": der.length, ...headers });
  response.end(der);
}
