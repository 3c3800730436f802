import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import type { Message } from "@bufbuild/protobuf";
import type { HttpBody } from "../../../gen/ts/google/api/httpbody_pb.ts";
import type { Refusal } from "../errors.ts";
import type { Call } from "./call.ts";
import type { Binding } from "./http-rule.ts";
import { renderJson } from "./rest-json.ts";
import type { Answer } from "./unary-calls.ts";

export type HttpRequest = IncomingMessage | Http2ServerRequest;
export type HttpResponse = ServerResponse | Http2ServerResponse;

const securityHeaders = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** Sends what a method answered, in the form that its route declares. */
export function sendAnswer(
  call: Call,
  binding: Binding,
  request: HttpRequest,
  response: HttpResponse,
  answer: Answer,
): void {
  const status = call.status ?? binding.status;
  const { output } = binding.method;
  if (status === 204 || status === 304) {
    send(request, response, status, call, undefined, undefined);
  } else if (output.typeName === "google.api.HttpBody") {
    const { contentType, data } = answer as unknown as HttpBody;
    send(request, response, status, call, contentType, Buffer.from(data));
  } else {
    const plain = renderJson(output, answer);
    addPagingHeaders(call, plain);
    if (binding.location !== "") {
      call.headers["location"] = binding.location.replaceAll(/\{([^}]*)\}/g, (_, name: string) => String(plain[name]));
    }
    const body = JSON.stringify(binding.responseBody === "" ? plain : plain[binding.responseBody]);
    send(request, response, status, call, "application/json; charset=utf-8", body);
  }
}

/**
 * A line of JSON for each message, or the bytes of each piece of a body, no faster than the caller takes them; what goes
 * wrong amid them breaks it off.
 */
export async function sendStream(
  call: Call,
  { method: { output } }: Binding,
  request: HttpRequest,
  response: HttpResponse,
  messages: AsyncIterable<Message>,
): Promise<void> {
  const isBody = output.typeName === "google.api.HttpBody";
  const lines = "application/x-ndjson; charset=utf-8";
  const begin = (contentType: string) => writeHead(request, response, 200, call, contentType);
  for await (const message of messages) {
    if (!response.headersSent) begin(isBody ? (message as HttpBody).contentType : lines);
    if (request.method === "HEAD" || isGone(response)) break;
    const part = isBody ? (message as HttpBody).data : `${JSON.stringify(renderJson(output, message))}\n`;
    if (!(response as ServerResponse).write(part)) await writable(response);
  }
  if (!response.headersSent) begin(isBody ? "application/octet-stream" : lines);
  response.end();
}

/** Resolves when more can be written, or nobody reads any more. */
function writable(response: HttpResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
    if (isGone(response)) done();
  });
}

/** Whether nobody reads any more. The response of HTTP/2 does not say so itself. */
const isGone = (response: HttpResponse) => ("stream" in response ? response.stream.destroyed : response.destroyed);

/** Of both envelopes of paged lists (G-0.16). */
function addPagingHeaders(call: Call, answer: Record<string, unknown>): void {
  const paging = (answer["pagination"] ?? answer) as Partial<Record<string, number>>;
  const { total, page, per_page: perPage = paging["limit"] } = paging;
  if (total === undefined || page === undefined || perPage === undefined) return;
  call.headers["x-total-count"] = String(total);
  call.headers["x-page"] = String(page);
  call.headers["x-per-page"] = String(perPage);
}

/** The headers that HTTP has for some errors (G-1.2), and none that are about the answer that did not come. */
export function addRefusalHeaders({ headers }: Call, refusal: Refusal): void {
  delete headers["content-disposition"];
  delete headers["etag"];
  if (refusal.status === 401) {
    const invalidToken = refusal.errorCode === "AUTH_REQUIRED" ? "" : ', error="invalid_token"';
    headers["www-authenticate"] = `Bearer realm="holdfast"${invalidToken}`;
  }
  if (refusal.retryAfterSeconds !== undefined) headers["retry-after"] = String(refusal.retryAfterSeconds);
}

/** Sends an error in the specified shape. */
export function sendRefusal(call: Call, request: HttpRequest, response: HttpResponse, refusal: Refusal): void {
  if (response.headersSent) {
    breakOff(response);
    return;
  }
  addRefusalHeaders(call, refusal);
  const body = JSON.stringify(refusal.body(call.source.requestId));
  send(request, response, refusal.status, call, "application/json; charset=utf-8", body);
}

/** So that the caller does not take what it has for the whole: HTTP/2 needs to be told that it went wrong. */
function breakOff(response: HttpResponse): void {
  if ("stream" in response) response.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  else response.destroy();
}

function send(
  request: HttpRequest,
  response: HttpResponse,
  status: number,
  call: Call,
  contentType: string | undefined,
  body: string | Buffer | undefined,
): void {
  writeHead(request, response, status, call, contentType, body);
  if (body === undefined || request.method === "HEAD") response.end();
  else (response as ServerResponse).end(body);
}

function writeHead(
  request: HttpRequest,
  response: HttpResponse,
  status: number,
  { headers, cookies }: Call,
  contentType?: string,
  body?: string | Buffer,
): void {
  const all: Record<string, string | number | string[]> = { ...securityHeaders, ...headers };
  if (contentType !== undefined) all["content-type"] = contentType;
  if (body !== undefined) all["content-length"] = Buffer.byteLength(body);
  if (cookies.length > 0) all["set-cookie"] = cookies;
  // What is left of a body that was not read to its end must not be taken for the next request.
  const unread = !request.complete && request.method !== "GET" && request.method !== "HEAD";
  if (unread && request.httpVersionMajor < 2) all["connection"] = "close";
  (response as ServerResponse).writeHead(status, all);
}
