import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Assignment, Driver } from "../../../src/targets/drivers/driver.ts";
import { mysqlUser } from "../../../src/targets/drivers/mysql-user.ts";
import { postgresRole } from "../../../src/targets/drivers/postgres-role.ts";
import { TargetError } from "../../../src/targets/target-error.ts";
import { MariaDb } from "../../harness/mariadb.ts";
import { PostgresTarget } from "../../harness/postgres-target.ts";
import { eventually } from "../../harness/program.ts";
import { TestPermit } from "./assignment.ts";
import { Authority } from "./authority.ts";
import { CutProxy } from "./cut-proxy.ts";
import { assignmentFor, outbound } from "./database-target.ts";

const [previous, candidate, earlier] = ["previous-password", "candidate-password", "earlier-candidate"];

/** Who changes the password, and what it is before. */
interface Mode {
  readonly who: string;
  readonly present: string;
  readonly fields: Partial<Assignment>;
}

const modes: readonly Mode[] = [
  { who: "the user itself", present: previous, fields: {} },
  { who: "the user itself, out of a doubt", present: earlier, fields: { earlierCandidates: [earlier] } },
  {
    who: "an administrator",
    present: previous,
    fields: { credentials: { admin_username: "admin", admin_password: "admin" } },
  },
];

/** What either kind of server is told, beside where it is. */
interface Kind {
  readonly what: string;
  readonly driver: Driver;
  readonly start: () => Promise<PostgresTarget | MariaDb>;
  readonly missing?: string | undefined;
  readonly settings: JsonObject;
  readonly prepare: readonly string[];
  readonly set: (password: string) => string;
  readonly connections: string;
}

const ofPostgres = {
  driver: postgresRole,
  prepare: ["create role app login", "create role admin login superuser password 'admin'"],
  set: (password: string) => `alter role app password '${password}'`,
  connections: "select count(*)::int as open from pg_stat_activity where usename in ('app', 'admin')",
};
const ofMariaDb = {
  driver: mysqlUser,
  prepare: ["create user app@'%'", "create user admin@'%' identified by 'admin'", "grant all on *.* to admin@'%'"],
  set: (password: string) => `alter user app@'%' identified by '${password}'`,
  connections: "select count(*) as open from information_schema.processlist where user in ('app', 'admin')",
};

const authority = Authority.make();
after(() => authority?.remove());
const unencrypted = { ssl_mode: "disable" };
const encrypted = { ssl_mode: "require" };
const noOpenssl = authority === undefined ? "this machine has no openssl" : undefined;

const kinds: readonly Kind[] = [
  {
    what: "PostgreSQL",
    ...ofPostgres,
    start: () => PostgresTarget.start(),
    settings: { ...unencrypted, database: "postgres" },
  },
  {
    what: "PostgreSQL over TLS",
    ...ofPostgres,
    missing: noOpenssl,
    async start() {
      const target = await PostgresTarget.start();
      await target.serveTls((authority as Authority).issue("IP:127.0.0.1"));
      return target;
    },
    settings: { ...encrypted, database: "postgres" },
  },
  {
    what: "MariaDB",
    ...ofMariaDb,
    missing: MariaDb.missing,
    start: () => MariaDb.start(),
    settings: unencrypted,
  },
  {
    what: "MariaDB over TLS",
    ...ofMariaDb,
    missing: MariaDb.missing ?? noOpenssl,
    start: () => MariaDb.start({ tls: (authority as Authority).issue("IP:127.0.0.1") }),
    settings: encrypted,
  },
];

/** After how many bytes: here and there, and where the end of it is on its way. All of them with HOLDFAST_TEST_CUTS=all. */
function cutsOf(total: number): readonly number[] {
  if (process.env["HOLDFAST_TEST_CUTS"] === "all") return Array.from({ length: total + 1 }, (_, at) => at);
  const early = [0, 0.2, 0.4, 0.6, 0.8].map((part) => Math.round(part * total));
  return [...early, ...[60, 30, 12, 4, 1].map((before) => Math.max(0, total - before))];
}

for (const { what, driver, start, missing, settings, prepare, set, connections } of kinds) {
  if (missing !== undefined) {
    console.log(`connections to ${what} that are cut are not tested: ${missing}`);
    continue;
  }
  describe(`When the connection to ${what} is cut while a password is changed`, function () {
    this.timeout(600_000);
    let target: PostgresTarget | MariaDb;
    let proxy: CutProxy;
    before(async () => {
      target = await start();
      proxy = await CutProxy.to(target.port);
      for (const statement of prepare) await target.sql(statement);
    });
    after(async () => {
      proxy.close();
      await target.stop();
    });

    const applier = () => driver.open?.({ outbound }) ?? expect.fail("the driver cannot be opened");
    const assignment = (port: number, fields: Partial<Assignment>) =>
      assignmentFor(
        driver,
        { host: target.host, port, username: "app", ...settings },
        { value: candidate, previousValue: previous, ...fields },
      );
    const apply = (port: number, fields: Partial<Assignment>) =>
      applier()
        .apply(assignment(port, fields), new TestPermit())
        .then(
          () => undefined,
          (error: unknown) => error as TargetError,
        );
    /** What the target accepts once it knows of the end of every connection. */
    const accepted = async (passwords: readonly string[]) => {
      await eventually("the target knows that nobody is there", async () => {
        const [{ open }] = await target.sql(connections);
        return open === 0 ? true : undefined;
      });
      const found = [];
      for (const each of passwords) if (await target.canLogIn("app", each)) found.push(each);
      return found;
    };

    for (const { who, present, fields } of modes) {
      for (const direction of ["to the server", "to the client"] as const) {
        it(`${direction}, by ${who}, it has the one or the other, and the same candidate ends it`, async () => {
          await target.sql(set(present));
          proxy.cutAfter(Number.POSITIVE_INFINITY, direction);
          expect(await apply(proxy.port, fields)).to.equal(undefined);
          const total = proxy.passed[direction];

          let doubts = 0;
          for (const at of cutsOf(total)) {
            await target.sql(set(present));
            proxy.cutAfter(at, direction);

            const error = await apply(proxy.port, fields);

            const found = await accepted([present, candidate]);
            expect(found, `after ${at} of ${total} bytes`).to.have.length(1);
            if (error === undefined) expect(found).to.deep.equal([candidate]);
            else
              expect(error, `after ${at} of ${total} bytes`)
                .to.be.instanceOf(TargetError)
                .and.include({ code: "unreachable", permanent: false });
            if (error !== undefined && found.includes(candidate)) doubts++;
            if (error?.unchanged === true) expect(found, `after ${at} of ${total} bytes`).to.deep.equal([present]);
            expect(await apply(target.port, fields)).to.equal(undefined);
            await applier().verify(assignment(target.port, fields), new TestPermit());
            expect(await accepted([present, candidate])).to.deep.equal([candidate]);
          }
          // Otherwise it was not this that was looked at.
          if (direction === "to the client") expect(doubts).to.be.greaterThan(0);
        });
      }
    }
  });
}
