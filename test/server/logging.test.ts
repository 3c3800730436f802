import { Writable } from "node:stream";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import pg from "pg";
import { UploadKeytabRequestSchema } from "../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { CreateSecretRequestSchema } from "../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { createLogger, redact } from "../../src/server/logging.ts";
import { useServer } from "../harness/server.ts";

const canary = "canary-7f3a";

/** What a logger wrote. */
function logged(write: (logger: ReturnType<typeof createLogger>) => void, level = "trace"): string {
  let text = "";
  const sink = new Writable({
    write: (chunk, _, done) => {
      text += chunk;
      done();
    },
  });
  write(createLogger(level, sink));
  return text;
}

describe("The log", () => {
  for (const name of [
    "authorization",
    "cookie",
    "value",
    "client_secret",
    "clientSecret",
    "access_token",
    "accessToken",
  ]) {
    it(`never shows what is called ${name}, at any depth that it has`, () => {
      const secret = { [name]: canary };

      const text = logged((logger) => {
        logger.info(secret, "top");
        logger.info({ headers: secret }, "one down");
        logger.info({ request: { headers: secret } }, "two down");
      });

      expect(text).not.to.include(canary);
      expect(text.split("[redacted]")).to.have.length(4);
    });
  }

  it("is lines of JSON with a time in ISO 8601", () => {
    const line = JSON.parse(logged((logger) => logger.info({ secrets: 2 }, "said")));

    expect(line).to.deep.include({ msg: "said", secrets: 2, pid: process.pid, level: 30 });
    expect(line.time).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  it("holds nothing below its level", () => {
    expect(logged((logger) => logger.debug("quiet"), "info")).to.equal("");
    expect(logged((logger) => logger.fatal("quiet"), "silent")).to.equal("");
  });

  it("shows an error with its cause and where it happened", () => {
    const error = new RangeError("outer", { cause: Object.assign(new Error("inner"), { code: "ECONNRESET" }) });

    const { err } = JSON.parse(logged((logger) => logger.error({ err: error }, "failed")));

    expect(err).to.deep.include({ type: "RangeError", message: "outer" });
    expect(err.stack).to.match(/^ {4}at .*logging\.test\.ts/);
    expect(err.cause).to.deep.include({ message: "inner", code: "ECONNRESET" });
  });

  describe("about an error of the database", () => {
    const server = useServer();
    const failing: [string, string, string][] = [
      ["a value that another row has", "insert into note values ($1), ($1)", "23505"],
      ["a value of another type", "select $1::uuid", "22P02"],
      ["a statement that holds a value", `select * from "${canary}" where $1 = ''`, "42P01"],
    ];
    for (const [why, statement, code] of failing) {
      it(`names its code, and neither the statement nor the row: ${why}`, async () => {
        await server.sql("create table if not exists note (text text primary key)");
        const client = new pg.Client(server.databaseUrl);
        await client.connect();

        const error = await client.query(statement, [canary]).catch((reason: unknown) => reason);
        await client.end();
        const text = logged((logger) => logger.error({ err: new Error("call failed", { cause: error }) }, "failed"));

        expect(text).to.include(code).and.not.to.include(canary);
      });
    }

    it("that comes amid a call holds none of the call's values", async () => {
      const value = `${canary}-value`;
      const description = `${canary}-description`;
      const { id } = await server.secret({ value, description });
      await server.sql("alter table secret add constraint no_more check (version < 2) not valid");
      await server.sql(
        "alter table secret add constraint no_change check (description not like '%changed%') not valid",
      );

      const changes = [
        await server.admin.rest("PUT", `/api/v1/secrets/${id}`, { value: `${value}-2` }),
        await server.admin.rest("PUT", `/api/v1/secrets/${id}`, { description: `${description}-changed` }),
      ];

      expect(changes.map(({ status }) => status)).to.deep.equal([500, 500]);
      expect(JSON.stringify(changes.map(({ body }) => body))).not.to.include(canary);
      expect(server.log).not.to.include(value);
      const errors = server.log.split("\n").filter((line) => line.includes('"level":50'));
      expect(errors).to.have.length(2);
      for (const line of errors) expect(line).to.include("23514").and.not.to.include(canary);
    });

    it("that loses its connection amid a change holds none of the call's values", async () => {
      const { id } = await server.secret({ description: `${canary}-before` });
      const lock = new pg.Client(server.databaseUrl);
      await lock.connect();
      await lock.query("begin");
      await lock.query("lock table secret in exclusive mode");

      const change = server.admin.rest("PUT", `/api/v1/secrets/${id}`, { description: `${canary}-after` });
      for (let killed = 0; killed === 0; ) {
        const { rowCount } = await lock.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        );
        killed = rowCount ?? 0;
      }
      await lock.end();

      expect((await change).status).to.equal(503);
      const warnings = server.log.split("\n").filter((line) => line.includes("could not be served"));
      expect(warnings).not.to.deep.equal([]);
      for (const line of warnings) expect(line).not.to.include(canary);
    });
  });
});

describe("A message in the log", () => {
  it("shows no field that is marked debug_redact, and the others by their names in the contract", () => {
    const message = create(CreateSecretRequestSchema, {
      key: "api-key",
      value: canary,
      projectId: "p",
      tags: ["a"],
      rotation: { enabled: true },
    });

    const plain = redact(CreateSecretRequestSchema, message);

    expect(plain).to.deep.equal({
      key: "api-key",
      value: "[redacted]",
      project_id: "p",
      tags: ["a"],
      rotation: { enabled: true },
    });
  });

  it("shows which field of a oneof it holds, by the same rule", () => {
    const upload = (outcome: MessageInitShape<typeof UploadKeytabRequestSchema>["outcome"] & {}) =>
      redact(UploadKeytabRequestSchema, create(UploadKeytabRequestSchema, { requestId: "r", outcome }));

    const sent = upload({ case: "keytabData", value: Buffer.from(canary) });
    const failed = upload({ case: "failure", value: "no such file" });
    const changed = upload({ case: "changed", value: { filePath: "/etc/krb5.keytab" } });

    expect(sent).to.deep.equal({ request_id: "r", keytab_data: "[redacted]" });
    expect(failed).to.deep.equal({ request_id: "r", failure: "no such file" });
    expect(changed).to.deep.equal({ request_id: "r", changed: { file_path: "/etc/krb5.keytab" } });
  });
});
