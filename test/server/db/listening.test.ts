import { expect } from "chai";
import { openSession } from "../../../src/server/db/database.ts";
import { Listening } from "../../../src/server/db/listening.ts";
import { createLogger } from "../../../src/server/logging.ts";
import { until } from "../../faults/own-engines.ts";
import { useDatabase } from "../../harness/database.ts";
import { shuttingDownProxy } from "./shutting-down-proxy.ts";

const logger = createLogger("silent");

describe("A channel of PostgreSQL that is listened to", () => {
  const database = useDatabase();
  let listening: Listening[];
  let heard: string[];
  beforeEach(() => {
    listening = [];
    heard = [];
  });
  afterEach(() => {
    for (const each of listening) each.stop();
  });

  const listen = async (open = () => openSession(database.url, "test-listening")) => {
    const started = new Listening(
      { name: "Test channel", open, notified: (payload) => heard.push(payload), subscribed: () => heard.push("anew") },
      logger,
    );
    listening.push(started);
    await started.start();
    return started;
  };
  const notify = (payload: string) => database.db.query(`select pg_notify('Test channel', $1)`, [payload]);
  const cut = () =>
    database.db.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = $1",
      ["test-listening"],
    );

  it("is heard from the start on, and says first that it begins", async () => {
    const started = await listen();

    await notify("first");
    await until(() => heard.length === 2);

    expect([started.listens, ...heard]).to.deep.equal([true, "anew", "first"]);
  });

  it("is heard again after each loss of the connection, and says that it begins anew", async () => {
    const started = await listen();

    for (const round of ["one", "two", "three"]) {
      await cut();
      await until(() => !started.listens);
      await until(() => started.listens);
      await notify(round);
      await until(() => heard.includes(round));
    }

    expect(heard).to.deep.equal(["anew", "anew", "one", "anew", "two", "anew", "three"]);
  });

  it("is heard when PostgreSQL was away at the start", async () => {
    let tries = 0;
    const started = await listen(async () => {
      tries += 1;
      return openSession(tries < 3 ? "postgresql://u:p@127.0.0.1:1/d" : database.url, "test-listening");
    });
    expect(started.listens).to.equal(false);

    await until(() => started.listens);

    expect(heard).to.deep.equal(["anew"]);
  });

  it("leaves no connection when it could not be subscribed to", async () => {
    let tries = 0;
    const started = await listen(async () => {
      const session = await openSession(database.url, "test-listening");
      tries += 1;
      if (tries === 1) await session.query("set statement_timeout = 1; begin; select pg_sleep(1)").catch(() => {});
      return session;
    });

    await until(() => started.listens);

    const sessions = "select 1 from pg_stat_activity where datname = current_database() and application_name = $1";
    await until(async () => (await database.db.query(sessions, ["test-listening"])).length === 1);
  });

  it("is not heard any more after the stop, which PostgreSQL may answer with an error", async () => {
    const proxy = await shuttingDownProxy(database.url);
    const started = await listen(() => openSession(proxy.url, "test-listening"));

    started.stop();
    await notify("late");
    await until(() => !started.listens);

    proxy.close();
    expect(heard).to.deep.equal(["anew"]);
  });
});
