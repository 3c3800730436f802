import { create, type DescMethodServerStreaming, type DescMethodUnary, type Message } from "@bufbuild/protobuf";
import createRouter from "find-my-way";
import { notFound, Refusal, toRefusal } from "../errors.ts";
import { type BodyLimits, readBody } from "./body.ts";
import type { Call } from "./call.ts";
import type { Admit } from "./chain.ts";
import { type Binding, bindingsOf, type RestMethod } from "./http-rule.ts";
import { policyOf } from "./policy.ts";
import { type HttpRequest, type HttpResponse, sendAnswer, sendRefusal, sendStream } from "./rest-answer.ts";
import { readMessage } from "./rest-request.ts";
import type { StreamCall } from "./stream-calls.ts";
import type { UnaryCall } from "./unary-calls.ts";

const bodyLimits: BodyLimits = { mostBytes: 2 * 1024 * 1024, timeoutMs: 20_000 };
const verbs = ["GET", "POST", "PUT", "DELETE", "PATCH"] as const;
const noBody = Buffer.alloc(0);

interface RestOptions {
  readonly calls: ReadonlyMap<DescMethodUnary, UnaryCall>;
  readonly streams: ReadonlyMap<DescMethodServerStreaming, StreamCall>;
  readonly newCall: (request: HttpRequest) => Call;
  readonly admit: Admit;
}

/** JSON over HTTP at the paths that the protos declare: one more protocol in front of the same methods. */
export class RestDoor {
  readonly #options: RestOptions;
  readonly #router = createRouter({ ignoreTrailingSlash: true, maxParamLength: 1024 });

  constructor(options: RestOptions) {
    this.#options = options;
    for (const [method, run] of options.calls) this.#route(method, { run });
    for (const [method, stream] of options.streams) this.#route(method, { stream });
    this.#router.compile();
  }

  #route(method: RestMethod, call: Omit<Route, "binding">): void {
    for (const binding of bindingsOf(method)) {
      this.#router.on(binding.verb, binding.route, () => {}, { binding, ...call });
    }
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
    const { binding, run, stream } = found.store as Route;
    const body = binding.body === "" ? noBody : await readBody(request, bodyLimits);
    if (body instanceof Refusal) closeAfterwards(call, request);
    const message = this.#message(call, binding, found.params, cut === -1 ? "" : url.slice(cut + 1), request, body);
    const onGone = (listener: () => void) => void response.once("close", () => response.writableEnded || listener());
    const incoming = { call, protocolName: "rest", url, onGone };
    if (run !== undefined) sendAnswer(call, binding, request, response, await run(incoming, message));
    else if (stream !== undefined) await sendStream(call, binding, request, response, stream(incoming, message));
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
      return readMessage({ binding, path, query, body, contentType, contentEncoding, ifMatch }, call.faults);
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
  readonly run?: UnaryCall;
  readonly stream?: StreamCall;
}

/** Whether a path that names nothing counts (gaps section 11): health's do not, nor does what is outside the API. */
const isOfApi = (path: string) => path.startsWith("/api/") && !/^\/api\/v1\/health(\/|$)/.test(path);

/** What is left of a body that was not read must not be taken for the next request. */
function closeAfterwards(call: Call, request: HttpRequest): void {
  if (request.httpVersionMajor < 2) call.headers["connection"] = "close";
}
