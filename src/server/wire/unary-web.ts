import type { ServerResponse } from "node:http";
import { create, type DescMethodUnary, fromJson, type Message, toBinary, toJsonString } from "@bufbuild/protobuf";
import {
  codeToHttpStatus,
  parseTimeout as connectTimeout,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import { parseTimeout as grpcTimeout } from "@connectrpc/connect/protocol-grpc";
import { trailerFlag } from "@connectrpc/connect/protocol-grpc-web";
import { readClosed } from "../../standards/closed-messages.ts";
import { type FieldFault, invalid, invalidField, Refusal, toRefusal } from "../errors.ts";
import { readBody } from "./body.ts";
import type { Call } from "./call.ts";
import { parseJsonObject } from "./json-text.ts";
import { checkGivenLists } from "./list-lengths.ts";
import { acceptedEncodings, decompress, frame, rpcBodyLimits, unframe } from "./message-bytes.ts";
import { addRefusalHeaders, type HttpRequest, type HttpResponse, sendRefusal } from "./rest-answer.ts";
import { faultsOf } from "./rest-request.ts";
import { messageOf, type UnaryCall } from "./unary-calls.ts";
import { longestTimeoutMs, parse, statusTrailers } from "./unary-grpc.ts";

const jsonOptions = { useProtoFieldName: true, alwaysEmitImplicit: true };

/** How a unary call travels where there are no trailers. */
interface Protocol {
  readonly name: "connect" | "grpc-web";
  readonly json: boolean;
  readonly type: string;
}

const protocols = new Map<string, Protocol>();
for (const [type, name, json] of [
  ["application/json", "connect", true],
  ["application/proto", "connect", false],
  ["application/grpc-web", "grpc-web", false],
  ["application/grpc-web+proto", "grpc-web", false],
  ["application/grpc-web+json", "grpc-web", true],
] as const) {
  protocols.set(type, { name, json, type });
}

interface Exchange {
  readonly request: HttpRequest;
  readonly response: HttpResponse;
  readonly call: Call;
  readonly protocol: Protocol;
}

/**
 * Serves unary calls of browsers and plain HTTP clients: Connect and gRPC-Web, over HTTP/1.1 and HTTP/2. Connect's own
 * handler reads the message before anybody is asked who calls, and repeats what it cannot read in its error.
 */
export function unaryWeb(newCall: (request: HttpRequest) => Call) {
  return (request: HttpRequest, response: HttpResponse, method: DescMethodUnary, run: UnaryCall): void => {
    const call = newCall(request);
    const type = (request.headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
    const protocol = protocols.get(type);
    response.on("error", () => {});
    if (request.method !== "POST" || protocol === undefined) {
      const accepted = [...protocols.keys()].join(", ");
      refuseNoCall(call, request, response, `one of ${accepted}, or application/grpc over HTTP/2`);
    } else {
      const exchange = { request, response, call, protocol };
      answer(exchange, method, run).catch((error: unknown) => refuse(exchange, toRefusal(error)));
    }
  };
}

/** Refuses, as an HTTP answer of ours, what is no call at all: another method than POST, or no known protocol. */
export function refuseNoCall(call: Call, request: HttpRequest, response: HttpResponse, accepted: string): void {
  if (request.method === "POST") {
    sendRefusal(call, request, response, invalidField("header.Content-Type", `must be ${accepted}`));
    return;
  }
  call.headers["allow"] = "POST";
  sendRefusal(call, request, response, new Refusal("METHOD_NOT_ALLOWED", "a call is a POST"));
}

async function answer(exchange: Exchange, method: DescMethodUnary, run: UnaryCall): Promise<void> {
  const { request, response, call, protocol } = exchange;
  const body = await readBody(request, rpcBodyLimits);
  const message = await decode(exchange, method, body);
  const onGone = (listener: () => void) => void response.once("close", () => response.writableEnded || listener());
  const timeoutMs = timeoutOf(exchange);
  const incoming = { call, protocolName: protocol.name, url: request.url ?? "", timeoutMs, onGone };
  const out = messageOf(method, await run(incoming, message));
  const bytes = protocol.json
    ? Buffer.from(toJsonString(method.output, out, jsonOptions))
    : toBinary(method.output, out);
  if (protocol.name === "connect") send(exchange, 200, protocol.type, bytes);
  else send(exchange, 200, protocol.type, Buffer.concat([frame(bytes), trailerFrame({ "grpc-status": "0" })]));
}

/** The message of a request; one that cannot be read is told by the chain, after who and whether. */
async function decode(exchange: Exchange, method: DescMethodUnary, body: Buffer | Refusal): Promise<Message> {
  const { request, call, protocol } = exchange;
  try {
    if (body instanceof Refusal) throw body;
    timeoutOf(exchange);
    const name = protocol.name === "connect" ? "content-encoding" : "grpc-encoding";
    const encoding = String(request.headers[name] ?? "identity");
    const bytes = await (protocol.name === "connect" ? decompress(body, encoding) : unframe(body, encoding));
    return protocol.json ? parseJson(method, bytes, call.faults) : parse(method, bytes);
  } catch (error) {
    call.unreadableBecause = toRefusal(error);
    return create(method.input);
  }
}

function parseJson(method: DescMethodUnary, bytes: Buffer, faults: FieldFault[]): Message {
  const given = readClosed(method.input, parseJsonObject(bytes), "protoJson", faults);
  checkGivenLists(method.input, given);
  try {
    return fromJson(method.input, given as never, { ignoreUnknownFields: true });
  } catch {
    throw invalid(faultsOf(method.input, given));
  }
}

function timeoutOf({ request, protocol }: Exchange): number | undefined {
  const isConnect = protocol.name === "connect";
  const name = isConnect ? "connect-timeout-ms" : "grpc-timeout";
  const header = request.headers[name];
  if (typeof header !== "string") return undefined;
  const { timeoutMs, error } = (isConnect ? connectTimeout : grpcTimeout)(header, longestTimeoutMs);
  if (error !== undefined) throw new Refusal("VALIDATION_ERROR", `the header ${name} is malformed`);
  return timeoutMs;
}

function refuse(exchange: Exchange, refusal: Refusal): void {
  const { call, protocol, response } = exchange;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const described = refusal.describe(call.source.requestId);
  addRefusalHeaders(call, described);
  if (protocol.name === "connect") {
    call.headers["accept-encoding"] = acceptedEncodings;
    send(exchange, codeToHttpStatus(described.code), "application/json", errorToJsonBytes(described, jsonOptions));
  } else {
    send(exchange, 200, protocol.type, trailerFrame(statusTrailers(described)));
  }
}

function trailerFrame(trailers: Record<string, string>): Buffer {
  const lines = Object.entries(trailers).map(([name, value]) => `${name}: ${value}\r\n`);
  return frame(Buffer.from(lines.join("")), trailerFlag);
}

function send({ request, response, call }: Exchange, status: number, type: string, body: Uint8Array): void {
  const headers: Record<string, string | number | string[]> = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...call.headers,
    "content-type": type,
    "content-length": body.length,
  };
  if (call.cookies.length > 0) headers["set-cookie"] = call.cookies;
  if (!request.complete && request.httpVersionMajor < 2) headers["connection"] = "close";
  (response as ServerResponse).writeHead(status, headers);
  (response as ServerResponse).end(body);
}
