import { Code } from "@connectrpc/connect";
import { Metadata, type ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import pg from "pg";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { purgeJob } from "../../../src/server/wire/idempotency.ts";
import type { Client } from "../../harness/client.ts";
import { superuserUrl } from "../../harness/databases.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const secrets = "/api/v1/secrets";
let count = 0;
const newKey = () => `attempt-${(count += 1)}`;
const draft = (more: Record<string, unknown> = {}) => ({
  key: `k${(count += 1)}`,
  value: "v",
  project_id: server.projectId,
  ...more,
});
const post = (path: string, body: unknown, key: string, client: Client = server.admin) =>
  client.rest("POST", path, body, { "idempotency-key": key });
const secretsNamed = (name: string) => server.sql("select id from secret where key = $1", [name]);

describe("A POST sent again under its Idempotency-Key (G-0.13)", () => {
  it("answers as before, says that it is replayed, and does nothing", async () => {
    const [key, body] = [newKey(), draft()];

    const first = await post(secrets, body, key);
    const again = await post(secrets, body, key);

    expect([first.status, again.status]).to.deep.equal([201, 201]);
    expect(again.body).to.deep.equal(first.body);
    expect(again.headers.get("location")).to.equal(first.headers.get("location"));
    expect([first, again].map(({ headers }) => headers.get("idempotency-replayed"))).to.deep.equal([null, "true"]);
    expect(await secretsNamed(body.key)).to.have.length(1);
  });

  it("is the same request however its JSON is written", async () => {
    const [key, { project_id: projectId, ...body }] = [newKey(), draft()];

    const first = await post(secrets, { ...body, project_id: projectId }, key);
    const again = await post(`${secrets}/`, { unknown: 1, projectId, ...body }, key);

    expect(again.headers.get("idempotency-replayed")).to.equal("true");
    expect(again.body.id).to.equal(first.body.id);
  });

  it("is 403 for whoever may no longer do it in that project", async () => {
    const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: "still-mine" });
    const editorOf = (...projects: string[]) => projects.map((project_id) => ({ project_id, role: "editor" }));
    const editor = await server.as("loses-a-project", { projectRoles: editorOf(server.projectId, other.id) });
    const [key, body] = [newKey(), draft()];
    await post(secrets, body, key, editor);
    await server.admin.rest("PUT", `/api/v1/machine-identities/${editor.id}`, { project_roles: editorOf(other.id) });

    const again = await post(secrets, body, key, editor);

    expect([again.status, again.body.error.code]).to.deep.equal([403, "PERMISSION_DENIED"]);
  });

  it("is 409 when the body, the path or the method of the service is another", async () => {
    const [key, body] = [newKey(), draft()];
    const { body: secret } = await post(secrets, body, key);

    const others = [
      await post(secrets, { ...body, value: "w" }, key),
      await post(`${secrets}/${secret.id}/archive`, {}, key),
      await post("/api/v1/projects", { name: "p" }, key),
    ];

    expect(others.map(({ status }) => status)).to.deep.equal([409, 409, 409]);
    expect(others.map((other) => other.body.error.code)).to.deep.equal(others.map(() => "RESOURCE_CONFLICT"));
  });

  it("is 409 while the first is still running", async () => {
    const [key, body] = [newKey(), draft()];
    const client = new pg.Client(server.databaseUrl);
    await client.connect();
    await client.query("begin");
    await client.query("lock table data_key in exclusive mode");

    const first = post(secrets, body, key);
    await waitForLock(client);
    const second = await post(secrets, body, key);
    await client.query("rollback");
    await client.end();

    expect(second.status).to.equal(409);
    expect((await first).status).to.equal(201);
  });

  it("of several at once has one outcome: some are replayed, some are 409, and one secret is made", async () => {
    const [key, body] = [newKey(), draft()];

    const answers = await Promise.all(Array.from({ length: 8 }, () => post(secrets, body, key)));

    const made = answers.filter(({ status }) => status === 201);
    expect(new Set(made.map((answer) => answer.body.id)).size).to.equal(1);
    expect(answers.filter(({ status }) => status !== 201 && status !== 409)).to.deep.equal([]);
    expect(made.filter(({ headers }) => headers.get("idempotency-replayed") === null)).to.have.length(1);
    expect(await secretsNamed(body.key)).to.have.length(1);
  });

  it("belongs to the identity that sent it", async () => {
    const other = await server.as("other", ["editor"]);
    const [key, body] = [newKey(), draft()];
    const theirs = { ...body, key: `${body.key}-theirs` };

    const [mine, yours] = [await post(secrets, body, key), await post(secrets, theirs, key, other)];

    expect([mine.status, yours.status]).to.deep.equal([201, 201]);
    expect(yours.headers.get("idempotency-replayed")).to.equal(null);
  });

  it("is a new request after 24 hours", async () => {
    const [key, body] = [newKey(), draft()];
    const { body: first } = await post(secrets, body, key);
    await age(key, "25 hours");
    await server.admin.rest("DELETE", `${secrets}/${first.id}/permanent`);

    const again = await post(secrets, body, key);

    expect(again.status).to.equal(201);
    expect(again.body.id).not.to.equal(first.id);
    expect((await post(secrets, body, key)).body.id).to.equal(again.body.id);
  });
});

describe("The outcomes of calls", () => {
  it("are removed when they are older than 24 hours, and only then", async () => {
    const [old, young] = [newKey(), newKey()];
    for (const key of [old, young]) await post(secrets, draft(), key);
    await age(old, "24 hours 1 minute");
    await age(young, "23 hours 59 minutes");

    await purgeJob(server.server.core.db).run({});

    const kept = await server.sql("select key from idempotency_record where key = any($1)", [[old, young]]);
    expect(kept).to.deep.equal([{ key: young }]);
  });
});

describe("The credentials in outcomes", () => {
  it("are removed after five minutes, and what they were in is made no second time", async () => {
    const tokens = "/api/v1/api-tokens";
    const [old, young] = [newKey(), newKey()];
    for (const key of [old, young]) expect((await post(tokens, { name: key }, key)).status).to.equal(201);
    await age(old, "5 minutes 1 second");
    await age(young, "4 minutes");

    await purgeJob(server.server.core.db).run({});

    const kept = await server.sql(
      "select key, length(outcome) > 0 as kept from idempotency_record where key = any($1)",
      [[old, young]],
    );
    expect(kept).to.have.deep.members([
      { key: old, kept: false },
      { key: young, kept: true },
    ]);
    const [gone, again] = [await post(tokens, { name: old }, old), await post(tokens, { name: young }, young)];
    expect([gone.status, gone.body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
    expect([again.status, again.headers.get("idempotency-replayed")]).to.deep.equal([201, "true"]);
  });
});

describe("An Idempotency-Key (G-0.13)", () => {
  it("has 1 to 255 visible ASCII characters", async () => {
    const cases: [string, number][] = [
      ["!", 201],
      ["~".repeat(255), 201],
      ["x".repeat(256), 400],
      ["", 400],
      ["a b", 400],
      ["é", 400],
      ["a,b", 201],
    ];
    for (const [key, expected] of cases) {
      const { status, body } = await post(secrets, draft(), key);

      expect(status, key).to.equal(expected);
      if (expected === 400) expect(body.error.details[0].field).to.equal("header.Idempotency-Key");
    }
  });

  it("is not looked at where the method is no POST", async () => {
    const { id } = await server.secret();
    const headers = { "idempotency-key": "a b" };

    const got = await server.admin.rest("GET", `${secrets}/${id}`, undefined, headers);
    const put = await server.admin.rest("PUT", `${secrets}/${id}`, { value: "w" }, headers);

    expect([got.status, put.status]).to.deep.equal([200, 200]);
  });

  it("opens nothing to those who may not call: a revoked permission refuses the replay", async () => {
    const editor = await server.as("revoked", ["editor"]);
    const [key, body] = [newKey(), draft()];
    await post(secrets, body, key, editor);
    await server.admin.rest("PUT", `/api/v1/machine-identities/${editor.id}`, { roles: [] });

    const again = await post(secrets, body, key, editor);

    expect(again.status).to.equal(403);
  });

  it("works over gRPC, and for the same request over REST", async () => {
    const [key, body] = [newKey(), draft()];
    const grpc = server.admin.grpc(SecretService);
    const metadata = () => server.admin.metadata({ "idempotency-key": key });
    const request = { key: body.key, value: body.value, projectId: body.project_id };

    const first = await grpc.createSecret(request, metadata());
    const again = await grpc.createSecret(request, metadata());
    const overRest = await post(secrets, body, key);
    const other = await grpc.createSecret({ ...request, value: "w" }, metadata()).catch((error: unknown) => error);
    grpc.close();

    expect(again.id).to.equal(first.id);
    expect(overRest.body.id).to.equal(first.id);
    expect(overRest.headers.get("idempotency-replayed")).to.equal("true");
    expect((other as ServiceError).code).to.equal(Code.Aborted);
    expect((other as ServiceError).metadata).to.be.instanceOf(Metadata);
  });
});

describe("An answer with a credential (G-0.13)", () => {
  const createClientSecret = async (key: string) => {
    const path = `/api/v1/machine-identities/${server.admin.id}/client-secrets`;
    return post(path, { description: "d" }, key);
  };

  it("is replayed for five minutes, and then refused without making another", async () => {
    const key = newKey();

    const first = await createClientSecret(key);
    await age(key, "4 minutes 50 seconds");
    const soon = await createClientSecret(key);
    await age(key, "20 seconds");
    const late = await createClientSecret(key);

    expect(soon.body.client_secret).to.equal(first.body.client_secret);
    expect(late.status).to.equal(409);
    expect(late.body).not.to.have.property("client_secret");
  });

  it("is stored encrypted: no row holds it, nor the key of the secret, nor the request", async () => {
    const keys = [newKey(), newKey()] as const;
    const { body: credential } = await createClientSecret(keys[0]);
    const body = draft({ key: "findable-key", value: "findable-value" });
    await post(secrets, body, keys[1]);

    const rows = await server.sql("select outcome, request from idempotency_record where key = any($1)", [keys]);

    expect(rows).to.have.length(2);
    for (const { outcome, request } of rows as { outcome: Buffer; request: Buffer }[]) {
      const kept = Buffer.concat([outcome, request]).toString("latin1");
      for (const text of [credential.client_secret, credential.id, "findable-key", "findable-value"]) {
        expect(kept).not.to.include(text);
      }
    }
  });
});

describe("A first attempt that failed (G-0.13)", () => {
  const stored = (key: string) => server.sql("select 1 from idempotency_record where key = $1", [key]);

  it("leaves no outcome: the same key can be used for the right request", async () => {
    const key = newKey();
    const taken = await server.secret();

    const refused = await post(secrets, draft({ key: taken.key }), key);
    const after = await stored(key);
    const right = await post(secrets, draft(), key);

    expect([refused.status, right.status]).to.deep.equal([409, 201]);
    expect(after).to.deep.equal([]);
  });

  it("and whose transaction never committed leaves neither a change nor an outcome", async () => {
    const [key, body] = [newKey(), draft()];
    // Older versions let nobody lock a table so who may not change it.
    const client = new pg.Client(superuserUrl(server.databaseUrl));
    await client.connect();
    await client.query("begin");
    await client.query("lock table audit_event in exclusive mode");

    const first = post(secrets, body, key);
    await waitForLock(client);
    await client.query(`select pg_terminate_backend(pid) from pg_locks where ${waiting}`);
    await client.query("rollback");
    await client.end();
    const failed = await first;
    const [kept, made] = [await stored(key), await secretsNamed(body.key)];
    const again = await post(secrets, body, key);

    expect(failed.status).to.equal(503);
    expect([kept, made]).to.deep.equal([[], []]);
    expect([again.status, again.headers.get("idempotency-replayed")]).to.deep.equal([201, null]);
  });
});

/** Other test files have databases of their own on the same PostgreSQL, with the same numbers for the same tables. */
const waiting = `not granted and relation is not null
  and database = (select oid from pg_database where datname = current_database())`;

/** Makes what is stored under a key older. */
async function age(key: string, by: string): Promise<void> {
  await server.sql("update idempotency_record set created_at = created_at - $2::interval where key = $1", [key, by]);
}

/** Resolves when somebody waits for a lock of `client`. */
async function waitForLock(client: pg.Client): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    const { rows } = await client.query(`select 1 from pg_locks where ${waiting}`);
    if (rows.length > 0) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("nobody waits");
}
