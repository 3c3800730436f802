import type { EntitySchema } from "@mikro-orm/core";
import { Migrator } from "@mikro-orm/migrations";
import { type EntityManager, MikroORM, type Options } from "@mikro-orm/postgresql";
import { CompiledQuery } from "kysely";
import pg from "pg";
import type { Logger } from "../logging.ts";
import { migrations } from "./migrations/list.ts";
import { ServiceClient } from "./service-client.ts";

export type { EntityManager };

interface DatabaseOptions {
  readonly url: string;
  readonly poolSize: number;
  readonly entities: readonly (EntitySchema | (new () => object))[];
  readonly logger: Logger;
}

/** A call must be refused within 3 s when the database does not answer (connect 2 s, statement 2.2 s, never both). */
const timeouts = {
  connectionTimeoutMillis: 2000,
  statement_timeout: 2200,
  query_timeout: 2500,
  idle_in_transaction_session_timeout: 15_000,
};

/** Bound statements, prepared once per connection: those of a call run in its transaction, if it has one. */
export interface Queries {
  query<Row>(text: string, values: readonly unknown[]): Promise<Row[]>;
}

/** PostgreSQL as the server uses it: the entity manager for entities, bound statements for hot reads and sealed rows. */
export class Database implements Queries {
  readonly orm: MikroORM;
  readonly pool: pg.Pool;
  readonly #options: DatabaseOptions;

  private constructor(orm: MikroORM, pool: pg.Pool, options: DatabaseOptions) {
    this.orm = orm;
    this.pool = pool;
    this.#options = options;
  }

  static async open(options: DatabaseOptions): Promise<Database> {
    const orm = await MikroORM.init(configurationOf(options, timeouts));
    await orm.connect();
    const pool = await orm.em.getConnection().getNativeClient();
    pool.on("error", () => {});
    return new Database(orm, pool, options);
  }

  /** Brings the schema up to date; of several replicas that start at once one does it and the others wait. */
  async migrate(): Promise<void> {
    const session = await this.openSession("holdfast-migrate");
    try {
      await session.query("set lock_timeout = '120s'");
      await session.query("select pg_advisory_lock(hashtextextended('holdfast:migrations', 0))");
      if ((await this.orm.migrator.getPending()).length > 0) await this.#applyMigrations();
    } finally {
      await session.end();
    }
  }

  /** On connections without time limits: a migration of a large table takes as long as it takes. */
  async #applyMigrations(): Promise<void> {
    const orm = await MikroORM.init(configurationOf(this.#options, {}));
    try {
      const applied = await orm.migrator.up();
      for (const { name } of applied) this.#options.logger.info({ migration: name }, "migration applied");
    } finally {
      await orm.close(true);
    }
  }

  /** A connection of its own, outside the pool, for what outlasts a call. End it. */
  openSession(name: string): Promise<pg.Client> {
    return openSession(this.#options.url, name);
  }

  /** An entity manager of its own, which sees the rows of one organization only. */
  fork(organizationId: string): EntityManager {
    const em = this.orm.em.fork();
    em.setFilterParams("tenant", { organizationId });
    return em;
  }

  /** An entity manager that sees no tenant's rows: every entity with a tenant must be asked for with the filter off. */
  forkWithoutTenant(): EntityManager {
    return this.orm.em.fork();
  }

  /** One bound statement outside any transaction. */
  async query<Row>(text: string, values: readonly unknown[]): Promise<Row[]> {
    const { rows } = await this.pool.query(text, values as unknown[]);
    return rows as Row[];
  }

  async close(): Promise<void> {
    await this.orm.close(true);
  }
}

/** A connection to the database at `url`, outside any pool, which PostgreSQL may end at any time. */
export async function openSession(url: string, name: string): Promise<pg.Client> {
  const session = new pg.Client({
    connectionString: url,
    application_name: name,
    connectionTimeoutMillis: timeouts.connectionTimeoutMillis,
    keepAlive: true,
  });
  // What is lost with it, who uses it learns from its statements and its end; unheard it would end the process.
  session.on("error", () => {});
  await session.connect();
  return session;
}

function configurationOf(
  { entities, url, poolSize, logger }: DatabaseOptions,
  limits: Partial<typeof timeouts>,
): Options {
  return {
    entities: [...entities],
    clientUrl: url,
    extensions: [Migrator],
    autoJoinRefsForFilters: false,
    migrations: {
      migrationsList: [...migrations],
      snapshot: false,
      transactional: true,
      allOrNothing: true,
      silent: true,
      tableName: "migration",
    },
    schemaGenerator: {
      ignoreSchema: ["audit", "jobs"],
      ignoreTriggers: true,
      ignoreRoutines: true,
      skipTables: ["migration"],
    },
    pool: { min: 0, max: poolSize, idleTimeoutMillis: 30_000 },
    driverOptions: {
      Client: ServiceClient,
      ...limits,
      // Where PostgreSQL compiles statements, that takes longer than ours do: of a subquery it counts what it would cost
      // for each row, although it is to run once.
      options: "-c jit=off",
      application_name: "holdfast",
      keepAlive: true,
    },
    ensureDatabase: false,
    logger: (line) => logger.debug({ orm: line.length }, "orm"),
    debug: false,
  };
}

/** One bound statement in the transaction of `em`; what it holds never becomes part of the SQL text. */
export async function run<Row>(em: EntityManager, text: string, values: readonly unknown[]): Promise<Row[]> {
  const { rows } = await em.getKysely().executeQuery(CompiledQuery.raw(text, [...values]));
  return rows as Row[];
}

type OutcomeListener = (committed: boolean) => void;
const outcomeListeners = new WeakMap<EntityManager, OutcomeListener[]>();

/** Hears how the transaction of `em` that runs now ends; not committed also means that nobody knows. */
export function onOutcome(em: EntityManager, listener: OutcomeListener): void {
  const listeners = outcomeListeners.get(em) ?? [];
  listeners.push(listener);
  outcomeListeners.set(em, listeners);
}

/** Runs `work` in a transaction of `em` that commits when it returns and rolls back when it throws. */
export async function inTransaction<T>(em: EntityManager, work: () => Promise<T>): Promise<T> {
  let committed = false;
  await em.begin();
  try {
    const result = await work();
    await em.commit();
    committed = true;
    return result;
  } catch (error) {
    await em.rollback().catch(() => {});
    throw error;
  } finally {
    for (const listener of outcomeListeners.get(em) ?? []) listener(committed);
    outcomeListeners.delete(em);
  }
}
