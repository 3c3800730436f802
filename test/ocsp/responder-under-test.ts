import { type IncomingHttpHeaders, type IncomingMessage, type RequestOptions, request } from "node:http";
import { pino } from "pino";
import { type Responder, type ResponderOptions, startOcspResponder } from "../../src/ocsp/ocsp-responder.ts";
import type { MemorySource } from "./memory-source.ts";

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A responder on a free port, and a client that sends targets as they are given: others tidy up slashes. */
export class ResponderUnderTest {
  readonly log: string[];
  readonly port: number;
  readonly #responder: Responder;

  private constructor(responder: Responder, log: string[]) {
    this.#responder = responder;
    this.port = responder.address.port;
    this.log = log;
  }

  static async start(source: MemorySource, options: Partial<ResponderOptions> = {}): Promise<ResponderUnderTest> {
    const log: string[] = [];
    const logger = pino({ level: "info" }, { write: (line: string) => void log.push(line) });
    const responder = await startOcspResponder({
      host: "127.0.0.1",
      port: 0,
      source,
      limit: async () => undefined,
      addressOf: ({ socket }) => socket.remoteAddress ?? "",
      logger,
      ...options,
    });
    return new ResponderUnderTest(responder, log);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get(path: string, options: RequestOptions = {}): Promise<HttpAnswer> {
    return this.send({ path, ...options });
  }

  post(body: Uint8Array, path = "/"): Promise<HttpAnswer> {
    return this.send({ path, method: "POST", headers: { "content-type": "application/ocsp-request" } }, body);
  }

  /** Several parts of a body are sent in chunks. */
  send(options: RequestOptions, ...body: readonly Uint8Array[]): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port: this.port, ...options }, (answer) => {
        collect(answer).then(resolve, reject);
      });
      sent.on("error", reject);
      for (const part of body.slice(0, -1)) sent.write(part);
      sent.end(body.at(-1));
    });
  }

  close(graceMs?: number): Promise<void> {
    return this.#responder.close(graceMs);
  }
}

async function collect(answer: IncomingMessage): Promise<HttpAnswer> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) };
}
