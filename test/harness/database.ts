import { Database } from "../../src/server/db/database.ts";
import { createLogger } from "../../src/server/logging.ts";
import { entities } from "../../src/server/server.ts";
import { cloneDatabase, dropDatabase } from "./databases.ts";

/** A database of the file's own, opened before its tests and gone after them. */
export function useDatabase(poolSize = 4): { readonly url: string; readonly db: Database } {
  let url = "";
  let db: Database;
  before(async () => {
    url = await cloneDatabase();
    db = await Database.open({ url, poolSize, entities, logger: createLogger("silent") });
  });
  after(async () => {
    await db.close();
    await dropDatabase(url);
  });
  return {
    get url() {
      return url;
    },
    get db() {
      return db;
    },
  };
}
