import type { DescService } from "@bufbuild/protobuf";
import { type Client as ConnectClient, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { credentials, Metadata } from "@grpc/grpc-js";
import { createGrpcClient, type GrpcClient } from "../../src/client/grpc-client.ts";

/** An answer of the REST side: JSON is parsed, a file is a Buffer, and all else is text. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** Somebody who calls the server, over whichever door. */
export class Client {
  readonly url: string;
  readonly token: string | undefined;
  /** The id of the identity, when there is one. */
  readonly id: string;
  readonly #headers: Record<string, string>;

  /** `headers` go with every request beside the token. */
  constructor(url: string, token: string | undefined, id = "", headers: Record<string, string> = {}) {
    this.url = url;
    this.token = token;
    this.id = id;
    this.#headers = token === undefined ? headers : { authorization: `Bearer ${token}`, ...headers };
  }

  /** Sends a REST request; a body that is not a string is sent as JSON. */
  async rest(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const all: Record<string, string> = { ...this.#headers, ...headers };
    if (body !== undefined && typeof body !== "string") all["content-type"] ??= "application/json";
    const init: RequestInit = { method, headers: all, redirect: "manual" };
    if (body !== undefined) init.body = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(`${this.url}${path}`, init);
    return { status: response.status, headers: response.headers, body: await bodyOf(response) };
  }

  /** A @grpc/grpc-js client, which is not ours, of a service. Close it. */
  grpc<S extends DescService>(service: S): GrpcClient<S> {
    return createGrpcClient(service, this.url.replace(/^https?:\/\//, ""), credentials.createInsecure());
  }

  /** What a gRPC call of this caller carries. */
  metadata(headers: Record<string, string> = {}): Metadata {
    const metadata = new Metadata();
    for (const [name, value] of Object.entries({ ...this.#headers, ...headers })) metadata.set(name, value);
    return metadata;
  }

  /** A Connect client over HTTP/1.1 with JSON. */
  connect<S extends DescService>(service: S): ConnectClient<S> {
    const authorize: Interceptor = (next) => (request) => {
      for (const [name, value] of Object.entries(this.#headers)) request.header.set(name, value);
      return next(request);
    };
    const transport = createConnectTransport({
      baseUrl: this.url,
      httpVersion: "1.1",
      useBinaryFormat: false,
      interceptors: [authorize],
    });
    return createClient(service, transport);
  }
}

/** The types of files that are no text. */
const binary = /^application\/(octet-stream|pkix-(cert|crl))$/;

async function bodyOf(response: Response): Promise<unknown> {
  const [type = ""] = (response.headers.get("content-type") ?? "").split(";", 1);
  if (binary.test(type)) return Buffer.from(await response.arrayBuffer());
  const text = await response.text();
  return type === "application/json" && text !== "" ? JSON.parse(text) : text;
}
