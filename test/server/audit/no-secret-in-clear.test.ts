import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ LOG_LEVEL: "trace" });

/** A value that is found wherever it shows up. */
const marked = (name: string) => `${name}-${randomBytes(12).toString("hex")}`;

/** The ways in which bytes may show up in text. */
function disguises(plain: string): string[] {
  const bytes = Buffer.from(plain);
  // What stands before the bytes decides how base64 cuts them: of three shifts one is always there.
  const shifted = [0, 1, 2].map((pad) => {
    const encoded = Buffer.concat([Buffer.alloc(pad), bytes]).toString("base64");
    return encoded.slice(pad === 0 ? 0 : 4, -4);
  });
  return [
    plain,
    bytes.toString("hex"),
    ...shifted,
    ...shifted.map((each) => each.replaceAll("+", "-").replaceAll("/", "_")),
  ];
}

/** Every column of every table in one text: bytes as hex, as text, and the rest as PostgreSQL writes it. */
async function dump(): Promise<string> {
  // The job queue makes its tables while the server serves already.
  for (;;) {
    const [made] = await server.sql("select to_regclass('jobs.schedule') is not null as queue");
    if (made.queue) break;
  }
  const columns = await server.sql(
    `select table_schema, table_name, column_name, data_type from information_schema.columns
     where table_schema in ('public', 'jobs') order by 1, 2, ordinal_position`,
  );
  expect(new Set(columns.map(({ table_schema }) => table_schema))).to.have.all.keys("public", "jobs");
  const parts = [];
  for (const { table_schema, table_name, column_name, data_type } of columns) {
    const column = `"${column_name}"`;
    const text =
      data_type === "bytea" ? `encode(${column}, 'hex') || ' ' || encode(${column}, 'escape')` : `${column}::text`;
    const rows = await server.sql(`select ${text} as text from "${table_schema}"."${table_name}"`);
    parts.push(...rows.map((row) => row.text ?? ""));
  }
  return parts.join("\n");
}

describe("Nothing secret is kept or logged in clear", () => {
  const plain: Record<string, string> = {};

  before(async () => {
    const { admin, projectId } = server;
    const path = "/api/v1/secrets";
    for (const name of ["created", "updated", "refused", "mistyped", "replayed", "conflicting", "rpc", "copied"]) {
      plain[name] = marked(name);
    }
    const { body: secret } = await admin.rest("POST", path, {
      project_id: projectId,
      key: "k",
      value: plain["created"],
    });
    const at = `${path}/${secret.id}`;
    await admin.rest("PUT", at, { value: plain["updated"], change_reason: "a reason" });
    await admin.rest("GET", at);
    await admin.rest("GET", `${at}?version=1`);
    await admin.rest("POST", `${at}/rollback`, { version: 1 });
    await admin.rest("POST", `${at}/copy`, { key: "copy" });
    await admin.rest("PUT", at, { value: plain["refused"], expected_version: 99 });
    await admin.rest("PUT", at, { value: { nested: plain["mistyped"] } });
    await admin.rest("PUT", at, `{"value": "${plain["mistyped"]}"`, { "content-type": "application/json" });
    const idempotent = { "idempotency-key": "once" };
    const replayed = { project_id: projectId, key: "replayed", value: plain["replayed"] };
    for (let time = 0; time < 2; time += 1) await admin.rest("POST", path, replayed, idempotent);
    await admin.rest("POST", path, { project_id: projectId, key: "k", value: plain["conflicting"] });
    const client = admin.grpc(SecretService);
    const { id } = await client.createSecret({ key: "rpc", value: plain["rpc"] ?? "", projectId }, admin.metadata());
    await client.getSecret({ id }, admin.metadata());
    client.close();
    await admin
      .connect(SecretService)
      .createSecret({ key: "connect", value: plain["copied"] ?? "", projectId })
      .catch(() => {});

    const { body: identity } = await admin.rest("POST", "/api/v1/machine-identities", { name: "m", roles: ["viewer"] });
    const secretsPath = `/api/v1/machine-identities/${identity.id}/client-secrets`;
    const { body: made } = await admin.rest("POST", secretsPath, {}, { "idempotency-key": "twice" });
    plain["client secret"] = made.client_secret;
    plain["administrator's secret"] = server.clientSecret;
    const login = { client_id: identity.client_id, client_secret: made.client_secret };
    const { body: token } = await server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", login);
    plain["access token"] = token.access_token;
    plain["guess"] = marked("guess");
    await server.anonymous.rest("POST", "/oauth/token", {
      grant_type: "client_credentials",
      client_id: identity.client_id,
      client_secret: plain["guess"],
    });
    await server.anonymous.rest("POST", "/oauth/token", "grant_type=client_credentials", {
      "content-type": "application/x-www-form-urlencoded",
      authorization: `Basic ${Buffer.from(`${identity.client_id}:${plain["guess"]}`).toString("base64")}`,
    });
    plain["bad token"] = marked("token");
    await server.anonymous.rest("GET", at, undefined, { authorization: `Bearer ${plain["bad token"]}` });
    plain["admin's token"] = admin.token ?? "";
    const { body: organization } = await admin.rest("POST", "/api/v1/organizations", { name: "o" });
    plain["another administrator's secret"] = organization.administrator.client_secret;
    const { body: user } = await admin.rest("POST", "/api/v1/users", { username: "u" }, { "idempotency-key": "user" });
    plain["enrollment token"] = user.enrollment_token;
    const { body: reset } = await admin.rest("POST", `/api/v1/users/${user.id}/reset-enrollment`, {});
    plain["another enrollment token"] = reset.enrollment_token;
  });

  it("in any column of any table", async () => {
    const everything = await dump();

    expect(everything).to.include("a reason");
    for (const [name, secret] of Object.entries(plain)) {
      for (const disguise of disguises(secret)) expect(everything.includes(disguise), name).to.equal(false);
    }
  });

  it("in the log, at its most talkative", () => {
    expect(server.log).to.include('"msg":"call"');
    expect(server.log).to.include("CreateSecret");
    for (const [name, secret] of Object.entries(plain)) {
      for (const disguise of disguises(secret)) expect(server.log.includes(disguise), name).to.equal(false);
    }
  });

  it("in the audit log as it is answered", async () => {
    const { body } = await server.admin.rest("GET", "/api/v1/audit-logs?per_page=100");

    const text = JSON.stringify(body);
    expect(body.pagination.total).to.be.within(15, 100);
    for (const [name, secret] of Object.entries(plain)) expect(text.includes(secret), name).to.equal(false);
  });
});
