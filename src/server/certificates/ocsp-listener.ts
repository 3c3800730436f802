import type { IncomingMessage } from "node:http";
import { type Responder, startOcspResponder } from "../../ocsp/ocsp-responder.ts";
import type { Config } from "../config.ts";
import type { Core } from "../context.ts";
import { addressKey, clientAddress } from "../wire/client-address.ts";
import { RateLimits } from "../wire/rate-limits.ts";
import { DatabaseStatusSource } from "./ocsp-source.ts";

/** Starts the OCSP responder on what the database has, with the limit of its class. It only reads. */
export function startOcspListener({
  config,
  db,
  seal,
  redis,
  logger,
}: Pick<Core, "config" | "db" | "logger" | "redis" | "seal">): Promise<Responder> {
  const limits = new RateLimits(redis, { ocsp: config.RATE_LIMIT_OCSP });
  return startOcspResponder({
    host: config.HOST,
    port: config.OCSP_PORT,
    source: new DatabaseStatusSource(db, seal, logger),
    limit: (address) => limits.count("ocsp", addressKey(address)),
    addressOf: (request) => addressOf(request, config),
    logger,
  });
}

function addressOf({ socket, headers }: IncomingMessage, { TRUSTED_PROXIES }: Config): string {
  const forwardedFor = headers["x-forwarded-for"];
  const hops = Array.isArray(forwardedFor) ? forwardedFor.join(", ") : forwardedFor;
  return clientAddress(socket.remoteAddress ?? "", hops, TRUSTED_PROXIES);
}
