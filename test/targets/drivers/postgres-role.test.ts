import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Assignment } from "../../../src/targets/drivers/driver.ts";
import { postgresRole } from "../../../src/targets/drivers/postgres-role.ts";
import { rotate } from "../../../src/targets/drivers/rotate.ts";
import { freePort, PostgresTarget } from "../../harness/postgres-target.ts";
import { TestPermit } from "./assignment.ts";
import { assignmentFor, failure, outbound, wrongFields } from "./database-target.ts";

const role = postgresRole.open({ outbound });
const [previous, candidate, earlier] = ["previous-password", "candidate-password", "earlier-candidate"];

describe("The driver of roles of PostgreSQL", () => {
  let target: PostgresTarget;
  let permit: TestPermit;
  let admin: { admin_username: string; admin_password: string };
  before(async () => {
    target = await PostgresTarget.start();
    admin = { admin_username: "service", admin_password: target.superuserPassword };
  });
  after(() => target.stop());
  beforeEach(async () => {
    permit = new TestPermit();
    await target.sql("drop role if exists app, app_a, app_b");
    await target.createRole("app", previous);
  });

  const server = () => ({ host: target.host, port: target.port, database: "postgres", ssl_mode: "disable" });
  const assignment = (fields: Partial<Assignment> = {}, settings: JsonObject = {}) =>
    assignmentFor(
      postgresRole,
      { ...server(), username: "app", ...settings },
      { value: candidate, previousValue: previous, ...fields },
    );
  /** Which of the passwords the role has. */
  const accepted = async (username = "app") => {
    const found = [];
    for (const each of [previous, candidate, earlier]) if (await target.canLogIn(username, each)) found.push(each);
    return found;
  };

  describe("when the role changes its own password", () => {
    it("sets the new one, with which the role then logs in", async () => {
      await role.apply(assignment(), permit);
      await role.verify(assignment(), permit);

      expect(await accepted()).to.deep.equal([candidate]);
    });

    it("may be told to do so again", async () => {
      await role.apply(assignment(), permit);

      await role.apply(assignment(), permit);

      expect(await accepted()).to.deep.equal([candidate]);
    });

    it("finds its way from a candidate that was given up", async () => {
      await target.sql(`alter role app password '${earlier}'`);

      await role.apply(assignment({ earlierCandidates: ["another", earlier] }), permit);

      expect(await accepted()).to.deep.equal([candidate]);
    });

    it("fails for good when the role accepts no password that is known, and changes nothing", async () => {
      await target.sql("alter role app password 'somebody else has changed it'");

      const error = await failure(role.apply(assignment(), permit));

      expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
    });

    it("refuses a server that asks for no password, since none could be verified there", async () => {
      await target.sql("drop role if exists trusted_app");
      await target.createRole("trusted_app", previous);

      const applying = await failure(role.apply(assignment({}, { username: "trusted_app" }), permit));
      const verifying = await failure(role.verify(assignment({}, { username: "trusted_app" }), permit));

      expect(applying).to.include({ code: "refused", permanent: true, unchanged: true });
      expect(verifying).to.include({ code: "refused", permanent: true });
    });

    it("tells no password to a server that asks for it in the clear", async () => {
      await target.sql("drop role if exists clear_app");
      await target.createRole("clear_app", previous);

      const error = await failure(role.apply(assignment({}, { username: "clear_app" }), permit));

      expect(error).to.include({ code: "refused", permanent: true, unchanged: true });
      expect(error.message).to.include("in the clear");
    });
  });

  describe("when another role changes it", () => {
    it("needs no present password", async () => {
      await role.apply(assignment({ credentials: admin, previousValue: "long since wrong" }), permit);
      await role.verify(assignment({ credentials: admin }), permit);

      expect(await accepted()).to.deep.equal([candidate]);
    });

    it("puts the present password back where the server lets the role in by none", async () => {
      await target.sql("alter role app nologin");

      const error = await failure(rotate(role, assignment({ credentials: admin }), permit));

      await target.sql("alter role app login");
      expect(error).to.include({ code: "refused", unchanged: true });
      expect(error.message).to.match(/the value before was put back$/);
      expect(await accepted()).to.deep.equal([previous]);
    });

    const refusals: [string, () => Promise<Assignment>][] = [
      [
        "the password of that role is wrong",
        async () => assignment({ credentials: { ...admin, admin_password: "no" } }),
      ],
      ["there is no such role", async () => assignment({ credentials: admin }, { username: "nobody" })],
      [
        "that role may not",
        async () => {
          await target.sql("drop role if exists powerless");
          await target.createRole("powerless", "powerless");
          return assignment({ credentials: { admin_username: "powerless", admin_password: "powerless" } });
        },
      ],
      ["there is no such database", async () => assignment({ credentials: admin }, { database: "nowhere" })],
      [
        "that role is the one that is rotated",
        async () => assignment({ credentials: { admin_username: "app", admin_password: previous } }),
      ],
    ];
    for (const [why, prepare] of refusals) {
      it(`fails for good when ${why}, and changes nothing`, async () => {
        const error = await failure(role.apply(await prepare(), permit));

        expect(error).to.include({ permanent: true, unchanged: true });
        expect(await accepted()).to.deep.equal([previous]);
      });
    }
  });

  const names = [
    'quo"te',
    "apo'strophe",
    "back\\slash",
    "semi; drop role app; --",
    "Größe 数据 🔑",
    "x".repeat(63),
    "current_user",
  ];
  for (const username of names) {
    it(`rotates a role whose name is ${username}`, async () => {
      await target.createRole(username, previous);

      await role.apply(assignment({}, { username }), permit);
      await role.apply(assignment({ value: earlier, credentials: admin }, { username }), permit);

      expect(await accepted(username)).to.deep.equal([earlier]);
      expect(await accepted()).to.deep.equal([previous]);
    });
  }

  it("never tells the server the password", async () => {
    const value = "a-password-that-must-not-be-in-a-log";

    await role.apply(assignment({ value }), permit);
    await role.apply(assignment({ value, credentials: admin }), permit);
    await role.verify(assignment({ value }), permit);

    expect(target.log()).to.include('alter role "app" password').and.not.include(value);
  });

  it("fails for now when nobody answers there, and changes nothing", async () => {
    const error = await failure(role.apply(assignment({}, { port: await freePort() }), permit));

    expect(error).to.include({ code: "unreachable", permanent: false, unchanged: true });
  });

  it("does not go to addresses that are not allowed", async () => {
    const error = await failure(role.apply(assignment({}, { host: "169.254.169.254" }), permit));

    expect(error).to.include({ code: "invalid", permanent: true, unchanged: true });
  });

  it("changes nothing once its permit has ended", async () => {
    const ended = { signal: new AbortController().signal, check: () => expect.fail("ended") };

    await role.apply(assignment(), ended).catch(() => {});

    expect(await accepted()).to.deep.equal([previous]);
  });

  it("does not verify a value that the role does not have", async () => {
    const error = await failure(role.verify(assignment(), permit));

    expect(error).to.include({ code: "refused", permanent: true });
    expect(error.message).to.equal("the login of app was refused (invalid_password)");
  });

  describe("with two roles", () => {
    const settings = () => ({ roles: ["app_a", "app_b"], username: null, value_format: "json" });
    beforeEach(async () => {
      await target.createRole("app_a", previous);
      await target.createRole("app_b", "never used");
    });

    it("changes the one that is not in use, and the other goes on working", async () => {
      const previousValue = JSON.stringify({ username: "app_a", password: previous, schema: "sales" });
      const given = postgresRole.settings.parse({ ...server(), ...settings() });
      const value = postgresRole.compose(candidate, given, previousValue);

      const task = assignment({ value, previousValue, credentials: admin }, settings());
      await role.apply(task, permit);
      await role.verify(task, permit);

      expect(JSON.parse(value)).to.deep.equal({
        username: "app_b",
        password: candidate,
        schema: "sales",
        host: target.host,
        port: target.port,
        database: "postgres",
      });
      expect([await accepted("app_a"), await accepted("app_b")]).to.deep.equal([[previous], [candidate]]);
    });

    it("refuses a value that is for none of them", async () => {
      const value = JSON.stringify({ username: "app", password: candidate });

      const error = await failure(role.apply(assignment({ value, credentials: admin }, settings()), permit));

      expect(error).to.include({ code: "invalid", permanent: true, unchanged: true });
      expect(await accepted()).to.deep.equal([previous]);
    });
  });
});

describe("The settings of roles of PostgreSQL", () => {
  const least = { host: "db.example.com", database: "app", username: "app_rw" };
  const roles = { roles: ["a", "b"], value_format: "json", username: null };

  it("have defaults", () => {
    expect(postgresRole.settings.parse(least)).to.deep.equal({
      ...least,
      port: 5432,
      ssl_mode: "verify-full",
      ca_certificate_pem: null,
      value_format: "password",
      roles: null,
    });
  });

  const wrong: [string, JsonObject, string[]][] = [
    ["no host", { host: null }, ["host"]],
    ["a socket instead of a host", { host: "/var/run/postgresql" }, ["host"]],
    ["a URL instead of a host", { host: "http://db.example.com" }, ["host"]],
    ["a host with a port", { host: "db.example.com:5432" }, ["host"]],
    ["port 0", { port: 0 }, ["port"]],
    ["a port beyond the last one", { port: 65536 }, ["port"]],
    ["no username", { username: null }, ["username"]],
    ["a username longer than PostgreSQL keeps", { username: "ä".repeat(32) }, ["username"]],
    ["a null character", { username: "a\0b" }, ["username"]],
    ["an unknown ssl_mode", { ssl_mode: "prefer" }, ["ssl_mode"]],
    ["a certificate that is none", { ca_certificate_pem: "trust me" }, ["ca_certificate_pem"]],
    ["the same role twice", { ...roles, roles: ["a", "a"] }, ["roles"]],
    ["one role", { ...roles, roles: ["a"] }, ["roles"]],
    ["roles and a value that does not say which", { ...roles, value_format: "password" }, ["value_format"]],
    ["roles and the name of another one", { ...roles, username: "c" }, ["username"]],
    ["something unknown", { sslmode: "require" }, [""]],
  ];
  for (const [what, settings, fields] of wrong) {
    it(`refuse ${what}`, () => {
      expect(wrongFields(postgresRole, { ...least, ...settings })).to.deep.equal(fields);
    });
  }

  it("take two roles with credentials only", () => {
    expect(wrongFields(postgresRole, { ...least, ...roles }, true)).to.deep.equal([]);
    expect(wrongFields(postgresRole, { ...least, ...roles }, false)).to.deep.equal(["roles"]);
  });

  const turns: [string, string | null, string, string][] = [
    ["a value for the first", null, '{"username":"a","password":"p"}', "b"],
    ["a value for the second", null, '{"username":"b","password":"p"}', "a"],
    ["a connection string of the first", null, "postgresql://a:p@db.example.com/app", "b"],
    ["a value that does not say", null, "just a password", "a"],
    ["a value that does not say, where the settings do", "a", "just a password", "b"],
    ["a value for another role", null, '{"username":"c","password":"p"}', "a"],
  ];
  for (const [what, username, value, next] of turns) {
    it(`let role ${next} follow upon ${what}`, () => {
      const settings = postgresRole.settings.parse({ ...least, ...roles, username });

      expect(JSON.parse(postgresRole.compose("new", settings, value))).to.include({ username: next, password: "new" });
    });
  }
});
