import type { Http2ServerRequest, ServerHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import { create, type DescMethodUnary, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { parseTimeout, setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { GatheredBytes } from "../../standards/gathered-bytes.ts";
import { Refusal, toRefusal } from "../errors.ts";
import { tooSlow } from "./body.ts";
import type { Call } from "./call.ts";
import { checkEncodedLists } from "./list-lengths.ts";
import { acceptedEncodings, frame, rpcBodyLimits, unframe } from "./message-bytes.ts";
import { messageOf, type UnaryCall } from "./unary-calls.ts";

export const longestTimeoutMs = 3_600_000;

/**
 * Serves unary gRPC straight on node:http2, at a fifth of the cost of the general handler. Returns false for what it
 * does not take: other protocols and streams.
 */
export function unaryGrpc(
  calls: ReadonlyMap<DescMethodUnary, UnaryCall>,
  newCall: (request: Http2ServerRequest) => Call,
): (request: Http2ServerRequest) => boolean {
  const methods = new Map<string, [DescMethodUnary, UnaryCall]>();
  for (const [method, call] of calls) methods.set(`/${method.parent.typeName}/${method.name}`, [method, call]);
  return (request) => {
    const { headers, stream } = request;
    const type = headers["content-type"];
    if ((type !== "application/grpc" && type !== "application/grpc+proto") || request.method !== "POST") return false;
    const found = methods.get(request.url);
    if (found === undefined) return false;
    const [method, run] = found;
    const call = newCall(request);
    stream.on("error", () => {});
    readAll(stream)
      .then(async (body) => {
        const message = await decode(method, body, headers, call);
        const incoming = { call, protocolName: "grpc", url: request.url, timeoutMs: timeoutFrom(headers), onGone };
        return toBinary(method.output, messageOf(method, await run(incoming, message)));
      })
      .then((answer) => sendAnswer(stream, call, answer))
      .catch((error: unknown) => sendGrpcRefusal(stream, call, toRefusal(error)));
    return true;

    function onGone(listener: () => void): void {
      stream.once("aborted", listener);
    }
  };
}

/** The whole body, or why there is none: what is too long is read no further than that. */
function readAll(stream: ServerHttp2Stream): Promise<Buffer | Refusal> {
  return new Promise((resolve, reject) => {
    let body = new GatheredBytes();
    let size = 0;
    const settle = (outcome: Buffer | Refusal) => {
      clearTimeout(timer);
      resolve(outcome);
    };
    const timer = setTimeout(() => settle(tooSlow()), rpcBodyLimits.timeoutMs);
    stream.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= rpcBodyLimits.mostBytes) body.add(chunk);
      else {
        body = new GatheredBytes();
        settle(new Refusal("VALIDATION_ERROR", "the message is too large", { rpc: Code.ResourceExhausted }));
      }
    });
    stream.once("end", () => settle(body.all()));
    stream.once("aborted", () => {
      clearTimeout(timer);
      reject(new ConnectError("the caller went away", Code.Canceled));
    });
  });
}

/** The message of a request; one that cannot be read is told by the chain, after who and whether. */
async function decode(
  method: DescMethodUnary,
  body: Buffer | Refusal,
  headers: Http2ServerRequest["headers"],
  call: Call,
): Promise<Message> {
  try {
    if (body instanceof Refusal) throw body;
    timeoutFrom(headers);
    const bytes = unframe(body, String(headers["grpc-encoding"] || "identity"));
    return parse(method, bytes instanceof Buffer ? bytes : await bytes);
  } catch (error) {
    call.unreadableBecause = toRefusal(error);
    if (call.unreadableBecause.code === Code.Unimplemented) call.headers["grpc-accept-encoding"] = acceptedEncodings;
    return create(method.input);
  }
}

/** The message in protobuf's binary form. Throws VALIDATION_ERROR. */
export function parse(method: DescMethodUnary, bytes: Buffer): Message {
  try {
    checkEncodedLists(method.input, bytes);
    return fromBinary(method.input, bytes);
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    throw new Refusal("VALIDATION_ERROR", "the message cannot be parsed", { cause });
  }
}

function timeoutFrom({ "grpc-timeout": header }: Http2ServerRequest["headers"]): number | undefined {
  if (typeof header !== "string") return undefined;
  const { timeoutMs, error } = parseTimeout(header, longestTimeoutMs);
  if (error !== undefined) throw new Refusal("VALIDATION_ERROR", "the header grpc-timeout is malformed");
  return timeoutMs;
}

function sendAnswer(stream: ServerHttp2Stream, call: Call, message: Uint8Array): void {
  if (stream.destroyed) return;
  stream.removeAllListeners("wantTrailers"); // the compatibility layer would send its own
  stream.respond({ ":status": 200, "content-type": "application/grpc", ...call.headers }, { waitForTrailers: true });
  stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.end(frame(message));
}

/** Sends an error as a gRPC answer without a message ("Trailers-Only"). */
export function sendGrpcRefusal(stream: ServerHttp2Stream, call: Call, refusal: Refusal): void {
  if (stream.destroyed) return;
  if (stream.headersSent) {
    stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    return;
  }
  const described = refusal.describe(call.source.requestId);
  stream.respond(
    { ":status": 200, "content-type": "application/grpc", ...call.headers, ...statusTrailers(described) },
    { endStream: true },
  );
  // Whoever still sends is told that nobody listens (RFC 9113 section 8.1).
  if (!stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
}

/** The trailers that say why a call failed. */
export function statusTrailers(refusal: Refusal): Record<string, string> {
  const trailers = Object.fromEntries(setTrailerStatus(new Headers(), refusal));
  // Connect encodes more than the protocol asks for, and grpc-js decodes no more than that.
  trailers["grpc-message"] = refusal.rawMessage.replaceAll(/[^\x20-\x24\x26-\x7e]+/g, encodeURIComponent);
  return trailers;
}
