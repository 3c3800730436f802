import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Database, type EntityManager, inTransaction, run } from "../../../src/server/db/database.ts";
import { toRefusal } from "../../../src/server/errors.ts";
import { createLogger } from "../../../src/server/logging.ts";
import { entities } from "../../../src/server/server.ts";
import { cloneDatabase, dropDatabase } from "../../harness/databases.ts";

const poolSize = 3;
/** 3 s, and some for a busy machine. */
const longestMs = 4000;

describe("Database", () => {
  let url: string;
  let db: Database;
  before(async () => {
    url = await cloneDatabase();
    db = await Database.open({ url, poolSize, entities, logger: createLogger("silent") });
    await db.query("create table note (text text)", []);
  });
  after(async () => {
    await db.close();
    await dropDatabase(url);
  });
  beforeEach(() => db.query("delete from note where $1", [true]));
  afterEach(() => {
    expect(db.pool.waitingCount).to.equal(0);
    expect(db.pool.idleCount).to.equal(db.pool.totalCount);
    expect(db.pool.totalCount).to.be.at.most(poolSize);
  });

  const notes = async () =>
    (await db.query<{ text: string }>("select text from note where $1", [true])).map(({ text }) => text);
  const note = (em: EntityManager, text: string) => run(em, "insert into note values ($1)", [text]);
  const code = (work: Promise<unknown>) =>
    work.then(
      () => "succeeded",
      (error: unknown) => toRefusal(error).errorCode,
    );
  const dieIn = (em: EntityManager) => run(em, "select pg_terminate_backend(pg_backend_pid()) where $1", [true]);

  it("has no statement compiled", async () => {
    expect(await db.query("select current_setting('jit') as jit where $1", [true])).to.deep.equal([{ jit: "off" }]);
  });

  describe("inTransaction", () => {
    it("commits what the work did when it returns, and answers what it answers", async () => {
      const em = db.forkWithoutTenant();

      const answer = await inTransaction(em, async () => {
        await note(em, "kept");
        return "done";
      });

      expect(answer).to.equal("done");
      expect(await notes()).to.deep.equal(["kept"]);
    });

    it("undoes what the work did when it throws, and passes that on", async () => {
      const em = db.forkWithoutTenant();

      const failed = inTransaction(em, async () => {
        await note(em, "gone");
        throw new RangeError("of the work");
      });

      expect(await failed.catch((error: unknown) => error)).to.be.instanceOf(RangeError);
      expect(await notes()).to.deep.equal([]);
    });

    it("gives its connection back when that dies amid it, however often", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, () => {
          const em = db.forkWithoutTenant();
          return code(
            inTransaction(em, async () => {
              await note(em, "gone");
              await dieIn(em);
            }),
          );
        }),
      );

      expect(outcomes).to.deep.equal(outcomes.map(() => "SERVICE_UNAVAILABLE"));
      const all = Array.from({ length: poolSize }, () => db.query("select pg_sleep($1)", [0.05]));
      await Promise.all(all);
      expect(await notes()).to.deep.equal([]);
    });

    it("gives its connection back when that dies while nothing runs on it", async () => {
      const em = db.forkWithoutTenant();

      const outcome = await code(
        inTransaction(em, async () => {
          const [mine] = await run<{ pid: number }>(em, "select pg_backend_pid() as pid where $1", [true]);
          await db.query("select pg_terminate_backend($1, 1000)", [mine?.pid]);
          await note(em, "gone");
        }),
      );

      expect(outcome).to.equal("SERVICE_UNAVAILABLE");
      expect(await notes()).to.deep.equal([]);
    });
  });

  describe("query", () => {
    it("waits for a connection when all are taken; what comes or answers too late is refused", async () => {
      const timed = async (work: Promise<unknown>) => {
        const start = performance.now();
        const outcome = await code(work);
        return { outcome, inTime: performance.now() - start < longestMs };
      };
      const holders = Array.from({ length: poolSize }, () => db.forkWithoutTenant());
      await Promise.all(holders.map((em) => em.begin()));

      const [refused, cut] = await Promise.all([
        timed(db.query("select $1::int", [1])),
        timed(run(holders[0] as EntityManager, "select pg_sleep($1)", [10])),
      ]);
      const patient = timed(db.query("select $1::int", [1]));
      await sleep(100);
      await Promise.all(holders.map((em) => em.rollback()));

      expect(refused).to.deep.equal({ outcome: "SERVICE_UNAVAILABLE", inTime: true });
      expect(cut).to.deep.equal(refused);
      expect(await patient).to.deep.equal({ outcome: "succeeded", inTime: true });
    });

    it("succeeds with a statement that failed before on the same connection", async () => {
      const em = db.forkWithoutTenant();
      const select = "select text from late_table where $1";

      const outcomes = await inTransaction(em, async () => {
        await em.execute("savepoint a");
        const first = await code(run(em, select, [true]));
        await em.execute("rollback to savepoint a");
        await em.execute("create table late_table (text text)");
        return [first, await code(run(em, select, [true]))];
      });

      expect(outcomes).to.deep.equal(["INTERNAL_ERROR", "succeeded"]);
    });

    it("is parsed once by the server when it has bound values, in a transaction and outside", async () => {
      const em = db.forkWithoutTenant();
      const text = "select $1::text as said";
      const prepared = () =>
        em.execute<{ statement: string; uses: number }[]>(
          "select statement, (generic_plans + custom_plans)::int as uses from pg_prepared_statements where statement like '%as said'",
        );

      const found = await inTransaction(em, async () => {
        for (const word of ["a", "b", "c"]) await run(em, text, [word]);
        await em.execute("select 'unnamed' as said");
        return prepared();
      });

      expect(found).to.deep.equal([{ statement: text, uses: 3 }]);
    });

    it("passes values beside the statement, whatever they hold", async () => {
      const hostile = `'; drop table note; -- " \\ $1 \u{1f511}`;

      await db.query("insert into note values ($1)", [hostile]);

      expect(await notes()).to.deep.equal([hostile]);
    });
  });
});
