import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import { Answers } from "./answers.ts";
import { ClientGone } from "./body.ts";
import { sendCertificate, sendCrl } from "./documents.ts";
import { sendError } from "./json-answers.ts";
import { Places } from "./places.ts";
import { sendProbe } from "./probes.ts";
import { answerQuery } from "./queries.ts";
import type { StatusSource } from "./status-source.ts";
import { type Target, targetOf } from "./target.ts";
import { Wait } from "./wait.ts";

/** How long a client may take, in milliseconds. */
export interface Patience {
  readonly headersMs: number;
  /** For a request with its body. */
  readonly requestMs: number;
  /** For taking what is sent, and for sending the next request. */
  readonly idleMs: number;
  /** Node looks for connections that are late this often. */
  readonly checkEveryMs: number;
}

export interface ResponderOptions {
  readonly host: string;
  /** 0 takes one that is free. */
  readonly port: number;
  readonly source: StatusSource;
  /** Counts a request of an address; undefined when requests are not limited. Probes are not counted. */
  readonly limit: (
    address: string,
  ) => Promise<{ readonly exceeded: boolean; readonly retryAfterSeconds: number } | undefined>;
  readonly addressOf: (request: IncomingMessage) => string;
  readonly logger: Logger;
  readonly patience?: Patience;
}

export interface Responder {
  readonly address: AddressInfo;
  /** Stops accepting, lets what runs finish, and cuts what is left after `graceMs`. */
  close(graceMs?: number): Promise<void>;
}

/** Longer than proxies keep a connection that idles, so that none sends into one that was just closed. */
const defaultPatience: Patience = { headersMs: 5_000, requestMs: 10_000, idleMs: 65_000, checkEveryMs: 1_000 };
const mostConnections = 10_000;
const defaultGraceMs = 8_000;
const sweepMs = 50;
/** For what cannot be had now: while the database is away, or too many lists are downloaded. */
const retryAfterSeconds = 5;

/**
 * The OCSP responder (gaps section 13.3): queries by POST and GET, revocation lists, certificates of authorities, and
 * probes. By http: whoever checks the certificate of a TLS server cannot ask by TLS. Rejects when it cannot listen.
 */
export async function startOcspResponder(options: ResponderOptions): Promise<Responder> {
  const { host, port, logger, patience = defaultPatience } = options;
  const [answers, places] = [new Answers(options.source, logger), new Places()];
  const server = createServer(
    {
      headersTimeout: patience.headersMs,
      requestTimeout: patience.requestMs,
      keepAliveTimeout: patience.idleMs,
      connectionsCheckingInterval: patience.checkEveryMs,
    },
    (request, response) => {
      serve(request, response, options, answers, places).catch((error: unknown) =>
        fail(request, response, error, logger),
      );
    },
  );
  server.maxConnections = mostConnections;
  server.setTimeout(patience.idleMs);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return { address: server.address() as AddressInfo, close: (graceMs = defaultGraceMs) => close(server, graceMs) };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  { source, limit, addressOf }: ResponderOptions,
  answers: Answers,
  places: Places,
): Promise<void> {
  const target = targetOf(request.url ?? "");
  const address = addressOf(request);
  const standing = target.kind === "probe" ? undefined : await limit(address);
  if (standing?.exceeded) {
    // Connections are counted nowhere: those of whoever asks too much are not kept. Who still writes would read no answer.
    if (request.complete) response.setHeader("connection", "close");
    return sendError(response, "RATE_LIMITED", { "retry-after": standing.retryAfterSeconds });
  }
  const methods = methodsOf(target);
  if (!methods.includes(request.method ?? "")) {
    return sendError(response, "METHOD_NOT_ALLOWED", { allow: methods.join(", ") });
  }
  if (target.kind === "probe") return sendProbe(response, target.probe, () => source.state());
  if (target.kind === "ocsp") return answerQuery(request, response, target.text, answers);
  if (target.kind === "none") return sendError(response, "RESOURCE_NOT_FOUND");
  const giveBack = places.take(address);
  if (giveBack === undefined) return sendAway(response);
  return sendDocument(request, response, target, source).finally(giveBack);
}

const sendAway = (response: ServerResponse) =>
  sendError(response, "SERVICE_UNAVAILABLE", { "retry-after": retryAfterSeconds });

const methodsOf = (target: Target) =>
  target.kind === "ocsp" && target.text === "" ? ["GET", "HEAD", "POST"] : ["GET", "HEAD"];

async function sendDocument(
  request: IncomingMessage,
  response: ServerResponse,
  { kind, authorityId }: { readonly kind: "crl" | "ca"; readonly authorityId: string },
  source: StatusSource,
): Promise<void> {
  const away = () => sendAway(response);
  if (kind === "crl") {
    const found = await new Wait(source.crl(authorityId)).settled.then((crl) => ({ crl }), away);
    if (found !== undefined) await sendCrl(request, response, found.crl);
  } else {
    const found = await new Wait(source.certificate(authorityId)).settled.then(
      (certificate) => ({ certificate }),
      away,
    );
    if (found !== undefined) sendCertificate(request, response, found.certificate);
  }
}

/** The log learns no more of the request than its method: what it asks about is nobody's business. */
function fail(request: IncomingMessage, response: ServerResponse, error: unknown, logger: Logger): void {
  if (error instanceof ClientGone) return;
  logger.error({ err: error, method: request.method }, "a request to the OCSP responder failed");
  if (response.headersSent) response.destroy();
  else sendError(response, "INTERNAL_ERROR");
}

async function close(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  // A connection whose last answer leaves now would otherwise idle on.
  const sweep = setInterval(() => server.closeIdleConnections(), sweepMs);
  const cut = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearTimeout(cut);
  clearInterval(sweep);
}
