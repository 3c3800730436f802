import { readConfig } from "../../src/server/config.ts";
import type { Core } from "../../src/server/context.ts";
import { createLogger } from "../../src/server/logging.ts";
import { type MasterKey, readMasterKey } from "../../src/server/seal/master-key.ts";
import { startServer } from "../../src/server/server.ts";
import type { Stage } from "./stage.ts";

/** What a server is built from, on a database of its own. */
export interface OpenCore extends Core {
  readonly masterKey: MasterKey;
  /** The one organization there is. */
  readonly organizationId: string;
}

/** Opens one in this process for the time of `work`: nobody can call it. */
export async function withCore<T>(
  stage: Stage,
  databaseName: string,
  work: (core: OpenCore) => Promise<T>,
): Promise<T> {
  const settings = Object.entries(await stage.settings(databaseName)).map(([name, value]) => [
    `SERVICE_${name}`,
    value,
  ]);
  const config = readConfig(Object.fromEntries(settings));
  const masterKey = readMasterKey(config, false);
  const server = await startServer({
    config,
    logger: createLogger("silent"),
    databaseUrl: config.DATABASE_URL ?? "",
    redisUrls: config.REDIS_URL ?? [],
    masterKey,
    parts: new Set(),
  });
  try {
    const { core } = server;
    const [first] = await core.db.query<{ id: string }>("select id from organization where $1", [true]);
    return await work({ ...core, masterKey, organizationId: first?.id ?? "" });
  } finally {
    await server.stop();
  }
}
