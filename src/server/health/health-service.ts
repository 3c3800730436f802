import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/health/v1/health_service_pb.ts";
import type { Statistic } from "../context.ts";
import type { Database } from "../db/database.ts";
import { callOf } from "../wire/call.ts";
import { type Components, overall } from "./components.ts";

/** The software is free; only an operator gives it an end (G-17.6). */
const licenseEnd = new Date("2099-12-31T23:59:59.000Z");

interface HealthOptions {
  readonly db: Database;
  readonly components: Components;
  readonly version: string;
  readonly licenseExpiresAt: string | undefined;
  /** SQL expressions that count, from all contexts. */
  readonly statistics: Partial<Record<Statistic, string>>;
}

/** The methods of health_service.proto. */
export class HealthService implements ServiceImpl<typeof pb.HealthService> {
  readonly #options: HealthOptions;

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  async getHealth(_: pb.GetHealthRequest, context: HandlerContext) {
    const { components, version } = this.#options;
    const findings = await components.check();
    const status = overall(findings);
    if (status === "unhealthy") callOf(context).status = 503;
    const { database, redis, ocsp } = findings;
    return { status, version, components: { database: database.status, redis: redis.status, ocsp: ocsp.status } };
  }

  async getDatabaseHealth(_: pb.GetDatabaseHealthRequest, context: HandlerContext) {
    const { components, db } = this.#options;
    const { database } = await components.check();
    if (database.status === "unhealthy") callOf(context).status = 503;
    const { totalCount, idleCount, options } = db.pool;
    return { ...database, connections: { active: totalCount - idleCount, idle: idleCount, max: options.max } };
  }

  async getSystemHealth() {
    const { components, version, licenseExpiresAt } = this.#options;
    const findings = await components.check();
    const expiresAt = licenseExpiresAt === undefined ? licenseEnd : new Date(licenseExpiresAt);
    const license = {
      status: expiresAt > new Date() ? "valid" : "expired",
      expiresAt: timestampFromDate(expiresAt),
      tier: "community",
    };
    return {
      status: overall(findings),
      version,
      uptimeSeconds: Math.floor(process.uptime()),
      components: { ...findings, license },
      statistics: await this.#count(findings.database.status === "healthy"),
    };
  }

  /** Zeros while the database is away: this is a report, and says so in `components`. */
  async #count(databaseAnswers: boolean) {
    const { db, statistics } = this.#options;
    const names = Object.keys(statistics) as Statistic[];
    const columns = names.map((name) => `(${statistics[name]})::int as ${name}`);
    const [row] =
      databaseAnswers && names.length > 0
        ? await db.query<Record<Statistic, number>>(`select ${columns.join(", ")}`, [])
        : [];
    return {
      totalSecrets: row?.total_secrets ?? 0,
      totalCertificates: row?.total_certificates ?? 0,
      activeAgents: row?.active_agents ?? 0,
      activeUsers: row?.active_users ?? 0,
    };
  }
}
