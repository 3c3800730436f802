import { connect as connectHttp2, type OutgoingHttpHeaders } from "node:http2";
import { connect, type Socket } from "node:net";
import { expect } from "chai";
import { type ErrorCode, errorCodes } from "../../../src/server/errors.ts";

/** An answer as it came over the socket. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export const portOf = (url: string) => Number(new URL(url).port);

/** Opens a connection to the server at `url`. Whatever arrives on it is in `received`. */
export function open(url: string): { socket: Socket; received: () => string; closed: Promise<void> } {
  const socket = connect(portOf(url), "127.0.0.1");
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  return { socket, received: () => Buffer.concat(chunks).toString("utf8"), closed };
}

/** Sends bytes on a connection of their own and waits until the server closes it: every answer that came. */
export async function send(url: string, bytes: string | Buffer): Promise<RawAnswer[]> {
  const { socket, received, closed } = open(url);
  socket.write(bytes);
  const late = setTimeout(() => socket.destroy(new Error("hangs")), 8000);
  await closed;
  clearTimeout(late);
  return parseAnswers(received());
}

/** The answers in a stream of them; those to HEAD have no body. */
export function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    const end = rest.indexOf("\r\n\r\n");
    if (end === -1) throw new Error(`not an answer: ${rest.toString().slice(0, 100)}`);
    const [first = "", ...lines] = rest.subarray(0, end).toString().split("\r\n");
    const headers = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
    );
    const length = Number(headers["content-length"] ?? 0);
    const body = rest.subarray(end + 4, end + 4 + length).toString();
    answers.push({ status: Number(first.split(" ")[1]), headers, body });
    rest = rest.subarray(end + 4 + length);
  }
  return answers;
}

/** The text of a request; a body gets its Content-Length unless `headers` say how it comes. */
export function request(
  method: string,
  target: string,
  { headers = {}, body = "" }: { headers?: Record<string, string>; body?: string | Buffer } = {},
): Buffer {
  const all: Record<string, string> = { Host: "holdfast", Connection: "close", ...headers };
  const hasLength = Object.keys(all).some((name) => /^(content-length|transfer-encoding)$/i.test(name));
  if (body.length > 0 && !hasLength) all["Content-Length"] = String(Buffer.byteLength(body));
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`), Buffer.from(body)]);
}

/** Throws unless `answer` is an error in exactly the specified shape. Returns the error. */
export function expectSpecifiedError(answer: RawAnswer): { code: string; details: { field: string }[] } {
  expect(answer.headers["content-type"]).to.equal("application/json; charset=utf-8");
  expect(answer.headers["cache-control"]).to.equal("no-store");
  const body = JSON.parse(answer.body);
  expect(Object.keys(body)).to.deep.equal(["error"]);
  const { error } = body;
  expect(Object.keys(error).sort()).to.deep.equal(["code", "details", "message", "request_id"]);
  expect(error.message).to.be.a("string").that.is.not.empty;
  expect(error.request_id).to.match(/^[A-Za-z0-9._-]{1,128}$/);
  expect(error.request_id).to.equal(answer.headers["x-request-id"]);
  expect(error.details).to.be.an("array");
  for (const fault of error.details) {
    expect(Object.keys(fault).sort()).to.deep.equal(["field", "message"]);
    expect(fault.field).to.be.a("string").that.is.not.empty;
    expect(fault.message).to.be.a("string").that.is.not.empty;
  }
  expect(errorCodes[error.code as ErrorCode]?.status, error.code).to.equal(answer.status);
  return error;
}

/** What a stream of HTTP/2 answered; `reset` is 0 when it ended well. */
export interface Http2Answer extends RawAnswer {
  readonly bytes: Buffer;
  readonly trailers: Readonly<Record<string, string>>;
  readonly reset: number;
}

/** Sends one request on an HTTP/2 connection of its own. */
export async function sendHttp2(
  url: string,
  headers: OutgoingHttpHeaders,
  body?: string | Buffer,
): Promise<Http2Answer> {
  const session = connectHttp2(url);
  session.on("error", () => {});
  try {
    return await new Promise<Http2Answer>((resolve, reject) => {
      const stream = session.request(headers, { endStream: body === undefined });
      const chunks: Buffer[] = [];
      let head: Record<string, unknown> = {};
      let trailers: Record<string, string> = {};
      stream.setTimeout(8000, () => reject(new Error("hangs")));
      stream.on("response", (received) => {
        head = received;
      });
      stream.on("trailers", (received) => {
        trailers = received as never;
      });
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("error", () => {});
      stream.on("close", () => {
        const bytes = Buffer.concat(chunks);
        const status = Number(head[":status"]);
        resolve({ status, headers: head as never, trailers, bytes, body: bytes.toString(), reset: stream.rstCode });
      });
      if (body !== undefined) stream.end(body);
    });
  } finally {
    session.destroy();
  }
}

/** The lines of level error, and above, in a server's log. */
export const errorLines = (log: string) =>
  log.split("\n").filter((line) => line !== "" && (JSON.parse(line) as { level: number }).level >= 50);
