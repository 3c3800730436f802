import { startOcspListener } from "./certificates/ocsp-listener.ts";
import { Database } from "./db/database.ts";
import { connectRedis } from "./redis.ts";
import { DataKey, OrganizationKey } from "./seal/key-tables.ts";
import { Seal } from "./seal/seal.ts";
import type { Server, ServerOptions } from "./server.ts";

/**
 * Starts the OCSP responder without anything else of the server. It reads a few tables and writes to none; until they are
 * there it is alive and not ready.
 */
export async function startOcspProcess(options: Omit<ServerOptions, "parts">): Promise<Omit<Server, "core">> {
  const { config, logger, databaseUrl, redisUrls, masterKey } = options;
  // Everything is read by statements, but the ORM does not start without entities.
  const entities = [OrganizationKey, DataKey];
  const db = await Database.open({ url: databaseUrl, poolSize: config.DATABASE_POOL_SIZE, entities, logger });
  const redis = await connectRedis(redisUrls, logger);
  const responder = await startOcspListener({ config, db, seal: new Seal(db, masterKey), redis, logger });
  return {
    address: undefined,
    ocspAddress: responder.address,
    bootstrapped: undefined,
    async stop(graceMs?: number) {
      await responder.close(graceMs);
      redis.disconnect();
      await db.close();
    },
  };
}
