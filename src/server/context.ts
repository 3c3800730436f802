import type { EntitySchema } from "@mikro-orm/core";
import type { Redis } from "ioredis";
import type { Outbound } from "../outbound/outbound.ts";
import type { AuditWriter } from "./audit/audit-writer.ts";
import type { Config } from "./config.ts";
import type { Database, EntityManager } from "./db/database.ts";
import type { Job, Jobs } from "./jobs.ts";
import type { Locks } from "./lock/lock.ts";
import type { Logger } from "./logging.ts";
import type { Seal } from "./seal/seal.ts";
import type { Wakes } from "./wake/wakes.ts";
import type { Call } from "./wire/call.ts";
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
  /** Hints to those who wait, on whichever replica. */
  readonly wakes: Wakes;
  /** The way to places that users name. */
  readonly outbound: Outbound;
  /** Where relying parties reach the OCSP responder, without a slash at the end. */
  readonly statusUrl: string;
}

/** What contexts ask of the one that keeps the identities. */
export interface Identities {
  /** The keyed hash by which a generated credential is kept and found. */
  hashOf(credential: string): Buffer;
  /** A machine identity with a role at its organization and a client secret, in the transaction of `em`. */
  create(
    em: EntityManager,
    draft: { organizationId: string; name: string; roles: readonly string[]; description: string },
  ): Promise<{ readonly id: string; readonly clientId: string; readonly clientSecret: string }>;
  /** Removes a machine identity of the caller's organization, in the call's transaction; its tokens end at once. */
  remove(call: Call, id: string): Promise<void>;
}

/** What the system health record counts, over the whole installation (G-17.4). */
export type Statistic = "total_secrets" | "total_certificates" | "active_agents" | "active_users";

/** What a context brings to the server. */
export interface Context {
  readonly entities: readonly (EntitySchema | (new () => object))[];
  services?(core: Core, identities: Identities): readonly Service[] | Promise<readonly Service[]>;
  jobs?(core: Core): readonly Job[];
  /** What goes on beside the API for as long as that listens; answers how to end it, within a second or so. */
  background?(core: Core): () => Promise<void>;
  /** What goes on where jobs run, on each replica that runs them; answers how to end it, within a second or so. */
  work?(core: Core): () => Promise<void>;
  /** One SQL expression each, as in "select count(*) from secret". */
  readonly statistics?: Partial<Record<Statistic, string>>;
}
