import type { EntitySchema } from "@mikro-orm/core";
import type { Redis } from "ioredis";
import type { AuditWriter } from "./audit/audit-writer.ts";
import type { Config } from "./config.ts";
import type { Database } from "./db/database.ts";
import type { Job, Jobs } from "./jobs.ts";
import type { Locks } from "./lock/lock.ts";
import type { Logger } from "./logging.ts";
import type { Seal } from "./seal/seal.ts";
import type { Service } from "./wire/doors.ts";

/** What contexts are built from. */
export interface Core {
  readonly config: Config;
  readonly logger: Logger;
  readonly db: Database;
  readonly seal: Seal;
  readonly audit: AuditWriter;
  readonly jobs: Jobs;
  readonly locks: Locks;
  /** What all replicas may lose: counts, and logins that are under way. Its commands fail fast while it is away. */
  readonly redis: Redis;
}

/** What the system health record counts, over the whole installation (G-17.4). */
export type Statistic = "total_secrets" | "total_certificates" | "active_agents" | "active_users";

/** What a context brings to the server. */
export interface Context {
  readonly entities: readonly (EntitySchema | (new () => object))[];
  services?(core: Core): readonly Service[] | Promise<readonly Service[]>;
  jobs?(core: Core): readonly Job[];
  /** One SQL expression each, as in "select count(*) from secret". */
  readonly statistics?: Partial<Record<Statistic, string>>;
}
