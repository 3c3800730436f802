import type { AddressInfo } from "node:net";
import { HealthService as healthDescriptor } from "../../gen/ts/holdfast/health/v1/health_service_pb.ts";
import { RateClass } from "../../gen/ts/holdfast/options/v1/options_pb.ts";
import type { Responder } from "../ocsp/ocsp-responder.ts";
import { Outbound } from "../outbound/outbound.ts";
import { version } from "../version.ts";
import { agents } from "./agents/context.ts";
import { audit } from "./audit/context.ts";
import { openAuditWriter } from "./audit/open.ts";
import { type Auth, authEntities, openAuth } from "./auth/auth.ts";
import { type Bootstrapped, bootstrap } from "./auth/bootstrap.ts";
import { certificates } from "./certificates/context.ts";
import { startOcspListener } from "./certificates/ocsp-listener.ts";
import { type Config, readTlsFiles } from "./config.ts";
import type { Context, Core } from "./context.ts";
import { Database } from "./db/database.ts";
import { discovery } from "./discovery/context.ts";
import { gateways } from "./gateways/context.ts";
import { governance } from "./governance/context.ts";
import { Components, overall } from "./health/components.ts";
import { HealthService } from "./health/health-service.ts";
import { type Job, Jobs } from "./jobs.ts";
import { keytabs } from "./keytabs/context.ts";
import { links } from "./links/context.ts";
import { Locks } from "./lock/lock.ts";
import type { Logger } from "./logging.ts";
import { connectRedis } from "./redis.ts";
import { rotation, rotationWork } from "./rotation/context.ts";
import { DataKey, OrganizationKey, ServiceKey } from "./seal/key-tables.ts";
import type { MasterKey } from "./seal/master-key.ts";
import { asKey, Seal } from "./seal/seal.ts";
import { secrets } from "./secrets/context.ts";
import { Wakes } from "./wake/wakes.ts";
import { Call, requestIdFrom } from "./wire/call.ts";
import { admitting, authorizing, recording, validating } from "./wire/chain.ts";
import { clientAddress } from "./wire/client-address.ts";
import { Documents } from "./wire/documents.ts";
import { doors, type Service } from "./wire/doors.ts";
import { finishing } from "./wire/finishing.ts";
import { gate } from "./wire/gate.ts";
import { holding } from "./wire/holding.ts";
import { purgeJob, replaying } from "./wire/idempotency.ts";
import { IdempotencyRecord } from "./wire/idempotency-record.ts";
import { cleartextListener, type Listener, tlsListener } from "./wire/listener.ts";
import { preparing } from "./wire/preparing.ts";
import { RateLimits } from "./wire/rate-limits.ts";
import type { HttpRequest } from "./wire/rest-answer.ts";
import { isOwnOrigin } from "./wire/session-cookie.ts";
import { unitOfWork } from "./wire/unit-of-work.ts";

/** What the server is made of. A new context is one line here. */
const contexts: readonly Context[] = [
  secrets,
  keytabs,
  agents,
  discovery,
  gateways(rotationWork),
  rotation,
  links,
  certificates,
  governance,
  audit,
];

/** Every table; the migrations are checked against them. */
export const entities = [
  ServiceKey,
  OrganizationKey,
  DataKey,
  IdempotencyRecord,
  ...authEntities,
  ...contexts.flatMap((context) => context.entities),
];

/** What a process of the server does. */
export type Part = "api" | "jobs" | "ocsp";

export interface ServerOptions {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly redisUrls: readonly string[];
  readonly masterKey: MasterKey;
  readonly logger: Logger;
  readonly parts: ReadonlySet<Part>;
}

/** A running server. */
export interface Server {
  /** Where the API listens; undefined without the part "api". */
  readonly address: AddressInfo | undefined;
  readonly ocspAddress: AddressInfo | undefined;
  /** What the first start on an empty database made. */
  readonly bootstrapped: Bootstrapped | undefined;
  readonly core: Core;
  /** Drains: stops accepting, finishes what runs, ends streams, within `graceMs`. */
  stop(graceMs?: number): Promise<void>;
}

const defaultGraceMs = 8000;

/** Starts a server on engines that are there already. Throws a ConfigError for a master key that is not the database's. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { config, logger, databaseUrl, redisUrls, parts } = options;
  const db = await Database.open({ url: databaseUrl, poolSize: config.DATABASE_POOL_SIZE, entities, logger });
  await db.migrate();
  const redis = await connectRedis(redisUrls, logger);
  const seal = new Seal(db, options.masterKey);
  const responder = parts.has("ocsp") ? await startOcspListener({ config, db, seal, redis, logger }) : undefined;
  const core: Core = {
    config,
    logger,
    db,
    seal,
    audit: await openAuditWriter(db, seal, logger),
    jobs: new Jobs(databaseUrl, logger),
    locks: new Locks(redisUrls),
    redis,
    wakes: new Wakes(redis, redisUrls[0] as string),
    outbound: new Outbound({ allowed: config.OUTBOUND_ALLOWED_CIDRS }),
    statusUrl: statusUrlOf(responder, config),
  };
  const auth = await openAuth(core);

  const components = new Components(db, redis, () => config.OCSP_URL ?? urlOf(responder, config));
  const listener = parts.has("api") ? await apiListener(core, auth, components) : undefined;
  const address = await listener?.api.listen(config.HOST, config.PORT);
  // Last of what can fail: a start that fails after it would have told nobody the administrator's secret.
  const bootstrapped = await bootstrap(core, auth);
  listener?.open();
  const endings = [
    ...(listener === undefined ? [] : contexts.flatMap((context) => context.background?.(core) ?? [])),
    ...(parts.has("jobs") ? contexts.flatMap((context) => context.work?.(core) ?? []) : []),
  ];
  const jobs = [
    ...auth.jobs,
    ...contexts.flatMap((context) => context.jobs?.(core) ?? []),
    purgeJob(db),
  ] satisfies Job[];
  // The API serves while the job queue starts: nothing that a call does waits for it.
  void core.jobs.start(jobs, parts.has("jobs"));

  return {
    address,
    ocspAddress: responder?.address,
    bootstrapped,
    core,
    async stop(graceMs = defaultGraceMs) {
      listener?.shutdown.abort();
      await Promise.all([
        listener?.api.close(graceMs),
        responder?.close(graceMs),
        core.jobs.stop(graceMs),
        ...endings.map((end) => end()),
      ]);
      auth.stop();
      core.wakes.close();
      redis.disconnect();
      await core.locks.close();
      await db.close();
    },
  };
}

async function apiListener(core: Core, auth: Auth, components: Components) {
  const { config, db, audit: auditWriter, logger, seal, redis } = core;
  const limits = new RateLimits(redis, {
    [RateClass.AUTH]: config.RATE_LIMIT_AUTH,
    [RateClass.API]: config.RATE_LIMIT_API,
    [RateClass.AGENT]: config.RATE_LIMIT_AGENT,
  });
  const health = new HealthService({
    db,
    components,
    version,
    licenseExpiresAt: config.LICENSE_EXPIRES_AT,
    statistics: Object.assign({}, ...[auth, ...contexts].map(({ statistics }) => statistics)),
  });
  const services: Service[] = [{ descriptor: healthDescriptor, implementation: health }, ...auth.services];
  for (const context of contexts) services.push(...((await context.services?.(core, auth.identities)) ?? []));
  const licenseEnd = config.LICENSE_EXPIRES_AT === undefined ? undefined : new Date(config.LICENSE_EXPIRES_AT);
  const features = new Set(config.KEYTAB_ENABLED ? ["keytabs"] : []);
  // Once admitted, that is identified and counted: the outermost first; this is the order of the answers (G-0.10).
  const chain = [
    recording(auditWriter, logger),
    authorizing(features),
    validating(logger),
    preparing(services),
    finishing(services),
    holding(services, core.locks),
    unitOfWork(auditWriter, licenseEnd),
    replaying(asKey(await seal.serviceKey("idempotency"))),
  ];
  const newCall = (request: HttpRequest) => callFrom(request, core);
  const documents = new Documents(new URL("../../gen/openapi.json", import.meta.url));
  const shutdown = new AbortController();
  const handler = doors({
    services,
    admit: admitting(auth.authenticate, limits),
    chain,
    newCall,
    documents,
    isHealthy: async () => overall(await components.check()) === "healthy",
    shutdown: shutdown.signal,
  });
  const { gated, open } = gate(handler);
  const tls = readTlsFiles(config);
  const api: Listener = tls === undefined ? cleartextListener(gated) : tlsListener(gated, tls);
  return { api, shutdown, open };
}

function callFrom(request: HttpRequest, { config, db }: Core): Call {
  const { headers } = request;
  const header = (name: string) => {
    const value = headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  };
  const isRpc =
    headers["content-type"]?.startsWith("application/grpc") === true || request.url?.startsWith("/holdfast.") === true;
  const call = new Call(
    {
      door: isRpc ? "rpc" : "rest",
      requestId: requestIdFrom(header("x-request-id")),
      method: request.method ?? "",
      address: clientAddress(request.socket.remoteAddress ?? "", header("x-forwarded-for"), config.TRUSTED_PROXIES),
      header,
      isOwnOrigin: (origin) => isOwnOrigin(origin, header("host") ?? header(":authority"), config.PUBLIC_URL),
    },
    db,
  );
  if (config.TLS_CERT_FILE !== undefined) call.headers["strict-transport-security"] = "max-age=31536000";
  return call;
}

/** How relying parties reach the responder, as far as one can know. */
function statusUrlOf(responder: Responder | undefined, config: Config): string {
  const url = new URL(config.OCSP_URL ?? urlOf(responder, config));
  if (config.OCSP_URL === undefined && config.PUBLIC_URL !== undefined)
    url.hostname = new URL(config.PUBLIC_URL).hostname;
  return url.href.replace(/\/+$/, "");
}

function urlOf(responder: Responder | undefined, config: Config): string {
  const { address, port } = responder?.address ?? { address: config.HOST, port: config.OCSP_PORT };
  return `http://${address.includes(":") ? `[${address}]` : address}:${port}`;
}
