import { createServer } from "node:net";
import { expect } from "chai";
import { ConfigError } from "../../src/server/config.ts";
import { Database } from "../../src/server/db/database.ts";
import { unavailable } from "../../src/server/errors.ts";
import { explainStart } from "../../src/server/explain-start.ts";
import { createLogger } from "../../src/server/logging.ts";
import { entities } from "../../src/server/server.ts";
import { databaseUrl } from "../harness/databases.ts";

const openDatabase = async (url: string) => {
  const logger = createLogger("silent");
  const db = await Database.open({ url, poolSize: 2, entities, logger });
  try {
    await db.migrate();
  } finally {
    await db.close();
  }
};

const listen = (host: string, port: number) =>
  new Promise((resolve, reject) =>
    createServer()
      .once("error", reject)
      .listen(port, host, resolve as () => void),
  );

const template = () => databaseUrl("postgres");

describe("What keeps a start from succeeding is one line that names the setting:", () => {
  const cases: [string, () => Promise<unknown>, string][] = [
    [
      "no database listens there",
      () => openDatabase("postgresql://u:p@127.0.0.1:1/d"),
      "SERVICE_DATABASE_URL: the database cannot be reached (ECONNREFUSED)",
    ],
    [
      "there is no such socket",
      () => openDatabase("postgresql://u:p@%2Fnowhere:5432/d"),
      "SERVICE_DATABASE_URL: the database cannot be reached (ENOENT)",
    ],
    [
      "there is no such host",
      () => openDatabase("postgresql://u:p@nowhere.invalid/d"),
      "SERVICE_DATABASE_URL: the database cannot be reached (",
    ],
    [
      "the password is wrong",
      () => openDatabase(template().replace(/:[^:@/]+@/, ":wrong@")),
      "SERVICE_DATABASE_URL: the database refuses the user or the password",
    ],
    [
      "there is no such database",
      () => openDatabase(databaseUrl("nowhere")),
      "SERVICE_DATABASE_URL: there is no such database; create it first",
    ],
    [
      "the master key could not be used when the first organization was made",
      () => Promise.reject(unavailable("a call is told less", new ConfigError("SERVICE_MASTER_KEY_KMS_KEY_ID: why"))),
      "SERVICE_MASTER_KEY_KMS_KEY_ID: why",
    ],
    [
      "the address is of another machine",
      () => listen("192.0.2.1", 0),
      "SERVICE_HOST is not an address of this machine",
    ],
  ];
  for (const [why, start, line] of cases) {
    it(why, async () => {
      const error = await start().then(
        () => new Error("it started"),
        (reason: unknown) => reason,
      );

      expect(explainStart(error)).to.include(line).and.not.to.include("\n");
    });
  }
});
