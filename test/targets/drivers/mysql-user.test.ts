import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Assignment } from "../../../src/targets/drivers/driver.ts";
import { mysqlUser } from "../../../src/targets/drivers/mysql-user.ts";
import { rotate } from "../../../src/targets/drivers/rotate.ts";
import { MariaDb } from "../../harness/mariadb.ts";
import { freePort } from "../../harness/postgres-target.ts";
import { packagesLoadedWith } from "../destinations/writing.ts";
import { TestPermit } from "./assignment.ts";
import { assignmentFor, failure, outbound, wrongFields } from "./database-target.ts";

const user = mysqlUser.open({ outbound });
const [previous, candidate, earlier] = ["previous-password", "candidate-password", "earlier-candidate"];

if (MariaDb.missing === undefined) testWithMariaDb();
else console.log(`the driver of users of MySQL is not tested with a MariaDB: ${MariaDb.missing}`);

function testWithMariaDb() {
  describe("The driver of users of MySQL, at a MariaDB", () => {
    let target: MariaDb;
    let permit: TestPermit;
    let admin: { admin_username: string; admin_password: string };
    before(async () => {
      target = await MariaDb.start();
      admin = { admin_username: "service", admin_password: target.superuserPassword };
    });
    after(() => target.stop());
    beforeEach(async () => {
      permit = new TestPermit();
      await target.sql("drop user if exists app@'%'");
      await target.createUser("app", previous);
    });

    const assignment = (fields: Partial<Assignment> = {}, settings: JsonObject = {}) =>
      assignmentFor(
        mysqlUser,
        { host: target.host, port: target.port, username: "app", ssl_mode: "disable", ...settings },
        { value: candidate, previousValue: previous, ...fields },
      );
    /** Which of the passwords the user has. */
    const accepted = async (username = "app") => {
      const found = [];
      for (const each of [previous, candidate, earlier]) if (await target.canLogIn(username, each)) found.push(each);
      return found;
    };

    it("lets a user change its own password", async () => {
      await user.apply(assignment(), permit);
      await user.verify(assignment(), permit);

      expect(await accepted()).to.deep.equal([candidate]);
    });

    it("lets another user change it, who needs no present password", async () => {
      await user.apply(assignment({ credentials: admin, previousValue: "long since wrong" }), permit);
      await user.verify(assignment({ credentials: admin }), permit);

      expect(await accepted()).to.deep.equal([candidate]);
    });

    it("puts the present password back where the server lets the user in by none", async () => {
      await target.sql("alter user app@'%' account lock");

      const error = await failure(rotate(user, assignment({ credentials: admin }), permit));

      await target.sql("alter user app@'%' account unlock");
      expect(error).to.include({ code: "refused", unchanged: true });
      expect(await accepted()).to.deep.equal([previous]);
    });

    it("changes that of the account at that host", async () => {
      await target.sql("create or replace user app@'10.0.0.1' identified by ?", [previous]);

      await user.apply(assignment({ credentials: admin }, { user_host: "10.0.0.1" }), permit);

      expect(await accepted()).to.deep.equal([previous]);
    });

    it("may be told to do so again", async () => {
      await user.apply(assignment(), permit);

      await user.apply(assignment(), permit);

      expect(await accepted()).to.deep.equal([candidate]);
    });

    it("finds its way from a candidate that was given up", async () => {
      await target.sql("alter user app@'%' identified by ?", [earlier]);

      await user.apply(assignment({ earlierCandidates: ["another", earlier] }), permit);

      expect(await accepted()).to.deep.equal([candidate]);
    });

    it("never tells the server the password", async () => {
      const value = "a-password-that-must-not-be-in-a-log";

      await user.apply(assignment({ value }), permit);
      await user.apply(assignment({ value, credentials: admin }), permit);
      await user.verify(assignment({ value }), permit);

      expect(target.log()).to.include("set password").and.not.include(value);
    });

    const names = [
      'quo"te',
      "apo'strophe",
      "back\\slash",
      "slash\\' quote",
      "semi'; drop user app; --",
      "Größe 数据 🔑",
      "%",
    ];
    for (const username of names) {
      for (const sqlMode of ["", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"]) {
        it(`changes that of ${username}, where the sql_mode is "${sqlMode}"`, async () => {
          await target.sql("set global sql_mode = ?", [sqlMode]);
          // Its quotes doubled and nothing else is right in both modes but for backslashes.
          const literal = `'${username.replaceAll("'", "''").replaceAll("\\", sqlMode === "" ? "\\\\" : "\\")}'`;
          await target.sql(`create or replace user ${literal}@'%' identified by '${previous}'`);

          await user.apply(assignment({}, { username }), permit);
          await user.apply(assignment({ value: earlier, credentials: admin }, { username }), permit);

          expect(await accepted(username)).to.deep.equal([earlier]);
          expect(await accepted()).to.deep.equal([previous]);
        });
      }
    }

    const refusals: [string, () => Promise<Assignment> | Assignment][] = [
      ["the password is wrong", () => assignment({ previousValue: "wrong" })],
      ["that of the administrator is", () => assignment({ credentials: { ...admin, admin_password: "wrong" } })],
      ["there is no such user", () => assignment({ credentials: admin }, { username: "nobody" })],
      [
        "the administrator may not",
        async () => {
          await target.sql("create or replace user powerless@'%' identified by 'powerless'");
          return assignment({ credentials: { admin_username: "powerless", admin_password: "powerless" } });
        },
      ],
      [
        "the administrator is the user itself",
        () => assignment({ credentials: { admin_username: "app", admin_password: previous } }),
      ],
      [
        "the user has no password that MariaDB takes a hash of",
        async () => {
          await target.sql("create or replace user other@'%' identified via unix_socket");
          return assignment({ credentials: admin }, { username: "other" });
        },
      ],
      ["it is to have two passwords, which MariaDB does not know", () => assignment({}, { dual_password: true })],
    ];
    for (const [why, prepare] of refusals) {
      it(`fails for good when ${why}, and changes nothing`, async () => {
        const error = await failure(user.apply(await prepare(), permit));

        expect(error).to.include({ permanent: true, unchanged: true });
        expect(await accepted()).to.deep.equal([previous]);
      });
    }

    it("fails for now when nobody answers there, and changes nothing", async () => {
      const error = await failure(user.apply(assignment({}, { port: await freePort() }), permit));

      expect(error).to.include({ code: "unreachable", permanent: false, unchanged: true });
    });

    it("changes nothing once its permit has ended", async () => {
      const ended = { signal: new AbortController().signal, check: () => expect.fail("ended") };

      await user.apply(assignment(), ended).catch(() => {});

      expect(await accepted()).to.deep.equal([previous]);
    });

    it("does not verify a value that the user does not have", async () => {
      const error = await failure(user.verify(assignment(), permit));

      expect(error.message).to.equal("the login of app was refused (ER_ACCESS_DENIED_ERROR)");
      expect(error).to.include({ code: "refused", permanent: true });
    });
  });
}

describe("The settings of users of MySQL", () => {
  const least = { host: "db.example.com", username: "app" };

  it("have defaults", () => {
    expect(mysqlUser.settings.parse(least)).to.deep.equal({
      ...least,
      port: 3306,
      ssl_mode: "verify-full",
      ca_certificate_pem: null,
      value_format: "password",
      user_host: "%",
      dual_password: false,
    });
  });

  const wrong: [string, JsonObject, string[]][] = [
    ["a socket instead of a host", { host: "/run/mysqld/mysqld.sock" }, ["host"]],
    ["no username", { username: null }, ["username"]],
    ["an empty username", { username: "" }, ["username"]],
    ["a null character", { user_host: "%\0" }, ["user_host"]],
    ["a text for dual_password", { dual_password: "yes" }, ["dual_password"]],
    ["a port that is none", { port: "mysql" }, ["port"]],
    ["something unknown", { database: "app" }, [""]],
  ];
  for (const [what, settings, fields] of wrong) {
    it(`refuse ${what}`, () => {
      expect(wrongFields(mysqlUser, { ...least, ...settings })).to.deep.equal(fields);
    });
  }
});

describe("The driver of users of MySQL", () => {
  it("costs a server that has none no client in memory", async () => {
    const loaded = await packagesLoadedWith("../drivers/mysql-user.ts");

    expect(loaded).to.include("zod");
    expect(loaded.filter((name) => name.startsWith("mysql2"))).to.deep.equal([]);
  });
});
