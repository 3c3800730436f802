import { totalmem } from "node:os";
import { explain } from "./engine-error.ts";
import { holdFolder } from "./folder-hold.ts";
import { type Account, checkPassable, postgresAccount } from "./postgres-account.ts";
import { postgresBinaries } from "./postgres-binaries.ts";
import { findOrCreateCluster } from "./postgres-cluster.ts";
import { openServerLog } from "./postgres-log.ts";
import { type PostgresUrls, postgresUrls } from "./postgres-role.ts";
import { launchPostgres, type Server } from "./postgres-server.ts";
import { makePrivateFolder } from "./private-folder.ts";
import { makeSocketFolder, removeSocketFolder } from "./socket-folder.ts";
import { supervise, type Warn } from "./supervise.ts";

export interface PostgresOptions {
  /** More settings of the server, as in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Hears when the server ended by itself and is started again. */
  readonly warn?: Warn;
}

export interface PostgresEngine extends PostgresUrls {
  /** The postmaster; a new one after a crash. */
  readonly pid: number;
  stop(): Promise<void>;
}

/** An eighth of the memory, within bounds: it is taken from the machine only as it fills. */
function sharedBuffersMib(): number {
  const eighthMib = Math.floor(totalmem() / 8 / 2 ** 20);
  return Math.min(512, Math.max(128, eighthMib));
}

const SETTINGS = {
  listen_addresses: "",
  unix_socket_permissions: "0700",
  max_connections: "100",
  shared_buffers: `${sharedBuffersMib()}MB`,
  // The log must not get the statements that fail, nor the rows: both hold what is secret.
  log_min_error_statement: "panic",
  log_error_verbosity: "terse",
};

/**
 * Starts PostgreSQL on `folder`, which it makes and fills on the first start, and keeps it running. Throws EngineError
 * for a folder that cannot be used or is in use, and for a machine that cannot run it.
 */
export async function startPostgres(folder: string, options: PostgresOptions = {}): Promise<PostgresEngine> {
  try {
    const account = postgresAccount(folder);
    const home = makePrivateFolder(folder, account);
    if (account) checkPassable(home, account);
    return await startIn(home, account, options);
  } catch (error) {
    throw explain(error, folder);
  }
}

async function startIn(home: string, account: Account | undefined, options: PostgresOptions): Promise<PostgresEngine> {
  const hold = holdFolder(home);
  const log = openServerLog(home);
  const free = () => {
    log.close();
    hold.release();
  };
  try {
    const binaries = await postgresBinaries(home, account);
    const cluster = await findOrCreateCluster(home, binaries, log, account);
    const run = makeSocketFolder(home, ".s.PGSQL.5432", account);
    if (account) checkPassable(run, account);
    const urls = postgresUrls(run, cluster.password);
    const settings = { ...SETTINGS, ...options.settings };
    const server: Server = { binaries, cluster, run, log, urls, settings, account };
    const supervised = await supervise("PostgreSQL", () => launchPostgres(server), options.warn ?? console.warn);
    let stopped: Promise<void> | undefined;
    const stop = async () => {
      await supervised.stop();
      removeSocketFolder(run, home);
      free();
    };
    return {
      ...urls,
      get pid() {
        return supervised.pid;
      },
      stop: () => (stopped ??= stop()),
    };
  } catch (error) {
    free();
    throw error;
  }
}
