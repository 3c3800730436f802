import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { create, type DescMethodUnary, type Message } from "@bufbuild/protobuf";
import createRouter from "find-my-way";
import type { HttpBody } from "../../../gen/ts/google/api/httpbody_pb.ts";
import { notFound, Refusal, toRefusal } from "../errors.ts";
import { type BodyLimits, readBody } from "./body.ts";
import type { Call } from "./call.ts";
import type { Admit } from "./chain.ts";
import { type Binding, bindingsOf } from "./http-rule.ts";
import { policyOf } from "./policy.ts";
import { renderJson } from "./rest-json.ts";
import { readMessage } from "./rest-request.ts";
import type { Answer, UnaryCall } from "./unary-calls.ts";

export type HttpRequest = IncomingMessage | Http2ServerRequest;
export type HttpResponse = ServerResponse | Http2ServerResponse;

const bodyLimits: BodyLimits = { mostBytes: 2 * 1024 * 1024, timeoutMs: 20_000 };
const verbs = ["GET", "POST", "PUT", "DELETE", "PATCH"] as const;
const noBody = Buffer.alloc(0);

const securityHeaders = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

interface RestOptions {
  readonly calls: ReadonlyMap<DescMethodUnary, UnaryCall>;
  readonly newCall: (request: HttpRequest) => Call;
  readonly admit: Admit;
}

/** JSON over HTTP at the paths that the protos declare: one more protocol in front of the same methods. */
export class RestDoor {
  readonly #options: RestOptions;
  readonly #router = createRouter({ ignoreTrailingSlash: true, maxParamLength: 1024 });

  constructor(options: RestOptions) {
    this.#options = options;
    for (const [method, run] of options.calls) {
      for (const binding of bindingsOf(method)) {
        this.#router.on(binding.verb, binding.route, () => {}, { binding, run });
      }
    }
    this.#router.compile();
  }

  handle(request: HttpRequest, response: HttpResponse): void {
    const call = this.#options.newCall(request);
    response.on("error", () => {});
    this.#answer(call, request, response).catch((error: unknown) => {
      sendRefusal(call, request, response, toRefusal(error));
    });
  }

  async #answer(call: Call, request: HttpRequest, response: HttpResponse): Promise<void> {
    const url = request.url ?? "/";
    const cut = url.indexOf("?");
    const path = cut === -1 ? url : url.slice(0, cut);
    const verb = request.method === "HEAD" ? "GET" : (request.method ?? "");
    const found = (verbs as readonly string[]).includes(verb) ? this.#router.find(verb as "GET", path) : null;
    if (found === null) throw await this.#notServed(call, path);
    const { binding, run } = found.store as Route;
    const body = binding.body === "" ? noBody : await readBody(request, bodyLimits);
    if (body instanceof Refusal) closeAfterwards(call, request);
    const message = this.#message(call, binding, found.params, cut === -1 ? "" : url.slice(cut + 1), request, body);
    const onGone = (listener: () => void) => void response.once("close", () => response.writableEnded || listener());
    const answer = await run({ call, protocolName: "rest", url, onGone }, message);
    sendAnswer(call, binding, request, response, answer);
  }

  #message(
    call: Call,
    binding: Binding,
    path: Record<string, string | undefined>,
    query: string,
    request: HttpRequest,
    body: Buffer | Refusal,
  ): Message {
    try {
      if (body instanceof Refusal) throw body;
      const { "content-type": contentType, "content-encoding": contentEncoding, "if-match": ifMatch } = request.headers;
      return readMessage({ binding, path, query, body, contentType, contentEncoding, ifMatch });
    } catch (error) {
      call.unreadableBecause = toRefusal(error);
      return create(binding.method.input);
    }
  }

  /** Unknown paths and methods are counted, and are answered as unknown whatever the count says (G-0.10). */
  async #notServed(call: Call, path: string): Promise<Refusal> {
    const routes = verbs.flatMap((verb) => this.#router.find(verb, path) ?? []);
    const [first] = routes;
    if (first !== undefined) call.policy = policyOf((first.store as Route).binding.method);
    if (first !== undefined || isOfApi(path)) await this.#options.admit(call).catch(() => {});
    if (first === undefined) return notFound("path");
    const allowed: string[] = routes.map(({ store }) => (store as Route).binding.verb);
    if (allowed.includes("GET")) allowed.push("HEAD");
    call.headers["allow"] = allowed.join(", ");
    return new Refusal("METHOD_NOT_ALLOWED", "the path does not take this method");
  }
}

interface Route {
  readonly binding: Binding;
  readonly run: UnaryCall;
}

/** Whether a path that names nothing counts (gaps section 11): health's do not, nor does what is outside the API. */
const isOfApi = (path: string) => path.startsWith("/api/") && !/^\/api\/v1\/health(\/|$)/.test(path);

/** What is left of a body that was not read must not be taken for the next request. */
function closeAfterwards(call: Call, request: HttpRequest): void {
  if (request.httpVersionMajor < 2) call.headers["connection"] = "close";
}

function sendAnswer(call: Call, binding: Binding, request: HttpRequest, response: HttpResponse, answer: Answer): void {
  const status = call.status ?? binding.status;
  const { output } = binding.method;
  if (status === 204 || status === 304) {
    send(request, response, status, call.headers, undefined, undefined);
  } else if (output.typeName === "google.api.HttpBody") {
    const { contentType, data } = answer as unknown as HttpBody;
    send(request, response, status, call.headers, contentType, Buffer.from(data));
  } else {
    const plain = renderJson(output, answer);
    addPagingHeaders(call, plain["pagination"]);
    if (binding.location !== "") {
      call.headers["location"] = binding.location.replaceAll(/\{([^}]*)\}/g, (_, name: string) => String(plain[name]));
    }
    const body = JSON.stringify(binding.responseBody === "" ? plain : plain[binding.responseBody]);
    send(request, response, status, call.headers, "application/json; charset=utf-8", body);
  }
}

function addPagingHeaders(call: Call, pagination: unknown): void {
  if (typeof pagination !== "object" || pagination === null) return;
  const { total, page, per_page } = pagination as Record<string, unknown>;
  call.headers["x-total-count"] = String(total);
  call.headers["x-page"] = String(page);
  call.headers["x-per-page"] = String(per_page);
}

/** The headers that HTTP has for some errors (G-1.2). */
export function addRefusalHeaders({ headers }: Call, refusal: Refusal): void {
  if (refusal.status === 401) {
    const invalidToken = refusal.errorCode === "AUTH_REQUIRED" ? "" : ', error="invalid_token"';
    headers["www-authenticate"] = `Bearer realm="holdfast"${invalidToken}`;
  }
  if (refusal.retryAfterSeconds !== undefined) headers["retry-after"] = String(refusal.retryAfterSeconds);
}

/** Sends an error in the specified shape. */
export function sendRefusal(call: Call, request: HttpRequest, response: HttpResponse, refusal: Refusal): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  addRefusalHeaders(call, refusal);
  const body = JSON.stringify(refusal.body(call.source.requestId));
  send(request, response, refusal.status, call.headers, "application/json; charset=utf-8", body);
}

function send(
  request: HttpRequest,
  response: HttpResponse,
  status: number,
  headers: Record<string, string>,
  contentType: string | undefined,
  body: string | Buffer | undefined,
): void {
  const all: Record<string, string | number> = { ...securityHeaders, ...headers };
  if (contentType !== undefined) all["content-type"] = contentType;
  if (body !== undefined) all["content-length"] = Buffer.byteLength(body);
  // What is left of a body that was not read to its end must not be taken for the next request.
  const unread = !request.complete && request.method !== "GET" && request.method !== "HEAD";
  if (unread && request.httpVersionMajor < 2) all["connection"] = "close";
  (response as ServerResponse).writeHead(status, all);
  if (body === undefined || request.method === "HEAD") response.end();
  else (response as ServerResponse).end(body);
}
