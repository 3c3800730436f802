import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Outbound } from "../../../src/outbound/outbound.ts";
import type { Applier, Driver } from "../../../src/targets/drivers/driver.ts";
import { mysqlUser } from "../../../src/targets/drivers/mysql-user.ts";
import { postgresRole } from "../../../src/targets/drivers/postgres-role.ts";
import { MariaDb } from "../../harness/mariadb.ts";
import { PostgresTarget } from "../../harness/postgres-target.ts";
import { loopback, resolving } from "../../outbound/network.ts";
import { TestPermit } from "./assignment.ts";
import { Authority } from "./authority.ts";
import { assignmentFor, failure } from "./database-target.ts";

const [previous, candidate] = ["previous-password", "candidate-password"];

interface Kind {
  readonly what: string;
  readonly driver: Driver & { readonly open: (means: { outbound: Outbound }) => Applier };
  readonly settings: JsonObject;
  readonly missing: string | undefined;
  readonly start: () => Promise<PostgresTarget | MariaDb>;
  readonly startWithTls: (authority: Authority) => Promise<PostgresTarget | MariaDb>;
  readonly create: string;
  readonly set: string;
}

const kinds: readonly Kind[] = [
  {
    what: "PostgreSQL",
    driver: postgresRole,
    settings: { database: "postgres" },
    missing: undefined,
    start: () => PostgresTarget.start(),
    startWithTls: () => PostgresTarget.start(),
    create: "create role app login",
    set: `alter role app password '${previous}'`,
  },
  {
    what: "MariaDB",
    driver: mysqlUser,
    settings: {},
    missing: MariaDb.missing,
    start: () => MariaDb.start(),
    startWithTls: (authority) => MariaDb.start({ tls: authority.issue("IP:127.0.0.1") }),
    create: "create user app@'%'",
    set: `alter user app@'%' identified by '${previous}'`,
  },
];

const authority = Authority.make();
const stranger = Authority.make();
after(() => {
  authority?.remove();
  stranger?.remove();
});

for (const { what, driver, settings, missing, start, startWithTls, create, set } of kinds) {
  const reason = missing ?? (authority === undefined ? "this machine has no openssl" : undefined);
  if (authority === undefined || stranger === undefined || reason !== undefined) {
    console.log(`TLS to ${what} is not tested: ${reason}`);
    continue;
  }
  describe(`TLS to ${what}`, () => {
    const { resolve } = resolving(["127.0.0.1"]);
    const applier = driver.open({ outbound: new Outbound({ allowed: loopback, resolve }) });
    const assignment = (target: PostgresTarget | MariaDb, given: JsonObject) =>
      assignmentFor(
        driver,
        { host: target.host, port: target.port, username: "app", ...settings, ...given },
        { value: candidate, previousValue: previous },
      );

    describe("of a server that has it", () => {
      let target: PostgresTarget | MariaDb;
      before(async () => {
        target = await startWithTls(authority);
        await target.sql(create);
      });
      after(() => target.stop());
      beforeEach(() => target.sql(set));

      const trusting = { ca_certificate_pem: authority.certificate };
      const accepted: [string, JsonObject, string][] = [
        ["of the address, by an authority that is trusted", trusting, "IP:127.0.0.1"],
        ["of the name", { ...trusting, host: "db.example.com" }, "DNS:db.example.com"],
        ["of another host, where nothing is verified", { ssl_mode: "require" }, "DNS:elsewhere.example.com"],
      ];
      for (const [certificate, given, names] of accepted) {
        it(`is taken with a certificate ${certificate}`, async () => {
          await target.serveTls(authority.issue(names));
          const task = assignment(target, given);

          await applier.apply(task, new TestPermit());
          await applier.verify(task, new TestPermit());

          expect(await target.canLogIn("app", candidate)).to.equal(true);
        });
      }

      const refused: [string, JsonObject, () => { certFile: string; keyFile: string }][] = [
        [
          "of another name",
          { ...trusting, host: "db.example.com" },
          () => authority.issue("DNS:elsewhere.example.com"),
        ],
        ["of another address", trusting, () => authority.issue("IP:127.0.0.2")],
        ["of this machine's name instead of its address", trusting, () => authority.issue("DNS:localhost")],
        ["that has expired", trusting, () => authority.issue("IP:127.0.0.1", -1)],
        ["by an authority that nobody trusts", {}, () => authority.issue("IP:127.0.0.1")],
        ["by another authority than the trusted one", trusting, () => stranger.issue("IP:127.0.0.1")],
      ];
      for (const [certificate, given, issue] of refused) {
        it(`is refused for good with a certificate ${certificate}`, async () => {
          await target.serveTls(issue());

          const error = await failure(applier.apply(assignment(target, given), new TestPermit()));

          expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
          expect(error.message).to.match(/^TLS with the database failed/);
          expect(await target.canLogIn("app", previous)).to.equal(true);
        });
      }
    });

    describe("of a server that has none", () => {
      let target: PostgresTarget | MariaDb;
      before(async () => {
        target = await start();
      });
      after(() => target.stop());

      for (const sslMode of ["require", "verify-full"]) {
        it(`is not done without where ssl_mode is ${sslMode}`, async () => {
          const error = await failure(applier.apply(assignment(target, { ssl_mode: sslMode }), new TestPermit()));

          expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
          expect(error.message).to.equal("the database offers no TLS");
        });
      }
    });
  });
}
