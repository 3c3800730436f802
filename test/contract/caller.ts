import { Readable } from "node:stream";
import { create, fromJson, type JsonValue, type Message } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import type { ClientReadableStream, ServiceError } from "@grpc/grpc-js";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/ts/google/rpc/error_details_pb.ts";
import { type Binding, bindingsOf, type RestMethod } from "../../src/server/wire/http-rule.ts";
import type { Answer, Client } from "../harness/client.ts";
import type { Sample } from "./samples.ts";

/** How a call ended, in a form that is the same whatever door it went through; of a stream, its first message. */
export type Ending =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly code: string; readonly message: string; readonly fields: readonly string[] };

type Method = (request: Message, options?: unknown) => Promise<Message> | AsyncIterable<Message>;

/** Calls a method of a generated client. Of a stream, which may never end, the first message is all that is wanted. */
async function callOn(client: object, method: RestMethod, sample: Sample, options: unknown): Promise<Message> {
  const run = (client as Record<string, Method>)[method.localName] as Method;
  const answer = run(fromJson(method.input, sample as JsonValue), options);
  if (answer instanceof Promise) return answer;
  try {
    for await (const message of answer) return message;
  } finally {
    // To leave the loop ends the reading, and not the call.
    if (answer instanceof Readable) (answer.on("error", () => {}) as ClientReadableStream<Message>).cancel();
  }
  return create(method.output);
}

/** Sends a sample over REST: what the path names goes there, the rest into query or body. */
async function overRest(client: Client, method: RestMethod, sample: Sample): Promise<Ending> {
  const [binding] = bindingsOf(method);
  if (binding === undefined) throw new Error(`${method.name} has no REST path`);
  const rest = { ...sample };
  const path = binding.template.replaceAll(/\{([^}]*)\}/g, (_, name: string) => {
    const value = String(rest[name]);
    delete rest[name];
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams(
    Object.entries(rest).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map((each): [string, string] => [name, String(each)]),
    ),
  );
  const answer =
    binding.body === "*"
      ? await client.rest(binding.verb, path, rest)
      : await client.rest(binding.verb, query.size === 0 ? path : `${path}?${query.toString()}`);
  if (answer.status >= 400 && answer.body.error !== undefined) {
    const { code, message, details } = answer.body.error;
    return { ok: false, code, message, fields: details.map(({ field }: { field: string }) => field) };
  }
  return { ok: true, message: messageOf(binding, answer) };
}

function messageOf({ method, responseBody }: Binding, { status, headers, body }: Answer): Message {
  const { output, methodKind } = method;
  if (Buffer.isBuffer(body)) return create(output, { contentType: headers.get("content-type"), data: body });
  const json = status === 204 ? {} : methodKind === "server_streaming" ? JSON.parse(body.split("\n")[0]) : body;
  return fromJson(output, (responseBody === "" ? json : { [responseBody]: json }) as JsonValue);
}

/** Sends a sample over gRPC with @grpc/grpc-js. */
async function overGrpc(client: Client, method: RestMethod, sample: Sample): Promise<Ending> {
  const grpc = client.grpc(method.parent);
  try {
    return { ok: true, message: await callOn(grpc, method, sample, client.metadata()) };
  } catch (error) {
    const { code, metadata } = error as ServiceError;
    const details = metadata
      .get("grpc-status-details-bin")
      .map((each) => Buffer.from(each as Buffer).toString("base64"));
    const trailer = new Headers({ "grpc-status": String(code), "grpc-status-details-bin": details.join() });
    return endingOf(findTrailerError(trailer));
  } finally {
    grpc.close();
  }
}

/** Sends a sample over Connect as JSON on HTTP/1.1. */
async function overConnect(client: Client, method: RestMethod, sample: Sample): Promise<Ending> {
  const over = new AbortController();
  try {
    return { ok: true, message: await callOn(client.connect(method.parent), method, sample, { signal: over.signal }) };
  } catch (error) {
    return endingOf(ConnectError.from(error));
  } finally {
    over.abort();
  }
}

function endingOf(refusal: ConnectError | undefined): Ending {
  const [info] = refusal?.findDetails(ErrorInfoSchema) ?? [];
  const [bad = create(BadRequestSchema)] = refusal?.findDetails(BadRequestSchema) ?? [];
  const fields = bad.fieldViolations.map(({ field }) => field);
  return { ok: false, code: info?.reason ?? "", message: refusal?.rawMessage ?? "", fields };
}

type Door = readonly [name: string, call: (client: Client, method: RestMethod, sample: Sample) => Promise<Ending>];

const rpcDoors: readonly Door[] = [
  ["gRPC", overGrpc],
  ["Connect", overConnect],
];
const allDoors: readonly Door[] = [["REST", overRest], ...rpcDoors];

/** Every way to call a method: what is for programs alone has no REST path. */
export const doorsOf = (method: RestMethod) => (bindingsOf(method).length === 0 ? rpcDoors : allDoors);

/** Calls a method by the first of its ways: REST where there is a path. */
export function call(client: Client, method: RestMethod, sample: Sample): Promise<Ending> {
  const [, first] = doorsOf(method)[0] as Door;
  return first(client, method, sample);
}
