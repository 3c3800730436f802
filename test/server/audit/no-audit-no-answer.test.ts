import { expect } from "chai";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();

/** Runs `work` while the audit log cannot be written. */
async function withoutAuditLog<T>(work: () => Promise<T>): Promise<T> {
  await server.sql("alter table audit_event rename to audit_event_away");
  try {
    return await work();
  } finally {
    await server.sql("alter table audit_event_away rename to audit_event");
  }
}

describe("While the audit log cannot be written", () => {
  it("no value leaves: 503, over REST and gRPC, for a copy too", async () => {
    const { id } = await server.secret({ value: "hunter2-hunter2" });
    const client = server.admin.grpc(SecretService);

    const { read, rpc, copied } = await withoutAuditLog(async () => ({
      read: await server.admin.rest("GET", `/api/v1/secrets/${id}`),
      rpc: await client.getSecret({ id }, server.admin.metadata()).catch((error: { details: string }) => error),
      copied: await server.admin.rest("POST", `/api/v1/secrets/${id}/copy`, { key: "copy" }),
    }));
    client.close();

    for (const { status, body } of [read, copied]) {
      expect(status).to.equal(503);
      expect(body.error.code).to.equal("SERVICE_UNAVAILABLE");
    }
    expect(rpc).to.have.property("code", 14);
    for (const answer of [read.body, copied.body, rpc]) expect(JSON.stringify(answer)).not.to.include("hunter2");
  });

  it("no check of a value is answered either", async () => {
    const { id } = await server.secret();

    const { status } = await withoutAuditLog(() =>
      server.admin.rest("GET", `/api/v1/secrets/${id}`, undefined, { "if-none-match": '"1"' }),
    );

    expect(status).to.equal(503);
  });

  it("nothing changes, whatever is asked for", async () => {
    const secret = await server.secret();
    const { body: identity } = await server.admin.rest("POST", "/api/v1/machine-identities", { name: "m" });
    const at = `/api/v1/secrets/${secret.id}`;
    const identityPath = `/api/v1/machine-identities/${identity.id}`;
    const login = { client_id: server.clientId, client_secret: server.clientSecret };
    const requests: [string, string, unknown?][] = [
      ["POST", "/api/v1/secrets", { project_id: server.projectId, key: "k", value: "v" }],
      ["PUT", at, { value: "w" }],
      ["PUT", at, { description: "d" }],
      ["POST", `${at}/rollback`, { version: 1 }],
      ["POST", `${at}/copy`, { key: "k" }],
      ["POST", `${at}/archive`],
      ["DELETE", at],
      ["DELETE", `${at}/permanent`],
      ["POST", "/api/v1/projects", { name: "p" }],
      ["DELETE", `/api/v1/projects/${server.projectId}`],
      ["POST", "/api/v1/organizations", { name: "o" }],
      ["POST", "/api/v1/machine-identities", { name: "n" }],
      ["PUT", identityPath, { roles: ["admin"] }],
      ["POST", `${identityPath}/client-secrets`, {}],
      ["DELETE", identityPath],
      ["POST", "/api/v1/auth/universal-auth/login", login],
    ];
    const stored = () =>
      server.sql(
        `select (select json_agg(s order by s.id) from secret s) as secrets,
           (select json_agg(v order by v.secret_id, v.version) from secret_version v) as versions,
           (select count(*) from data_key) as keys, (select json_agg(p order by p.id) from project p) as projects,
           (select json_agg(o order by o.id) from organization o) as organizations,
           (select json_agg(m order by m.id) from machine_identity m) as identities,
           (select json_agg(c order by c.id) from client_secret c) as client_secrets,
           (select json_agg(b order by b.id) from role_binding b) as bindings`,
      );
    const before = await stored();

    await withoutAuditLog(async () => {
      for (const [verb, path, body] of requests) {
        const answer = await server.admin.rest(verb, path, body);
        expect(answer.status, `${verb} ${path}`).to.equal(503);
        expect(answer.body.error.code).to.equal("SERVICE_UNAVAILABLE");
      }
    });

    expect(await stored()).to.deep.equal(before);
  });

  it("what is not recorded is answered as always, and all else again once the log is back", async () => {
    const { id } = await server.secret();

    const listed = await withoutAuditLog(() =>
      server.admin.rest("GET", `/api/v1/secrets?project_id=${server.projectId}`),
    );

    expect(listed.status).to.equal(200);
    expect((await server.admin.rest("GET", `/api/v1/secrets/${id}`)).status).to.equal(200);
  });
});

describe("A read of a value", () => {
  it("waits for the commit of its audit event", async () => {
    const { id } = await server.secret();
    const { audit } = server.server.core;
    const write = audit.write.bind(audit);
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const arrived = new Promise<void>((resolve) => {
      audit.write = async (event) => {
        await write(event);
        resolve();
        await held;
      };
    });

    let answered = false;
    const reading = server.admin.rest("GET", `/api/v1/secrets/${id}`).finally(() => {
      answered = true;
    });
    await arrived;
    const rows = await server.sql("select 1 from audit_event where resource_id = $1 and action = 'secret.read_value'", [
      id,
    ]);
    const before = answered;
    release();
    const { status } = await reading;
    audit.write = write;

    expect(rows).to.have.length(1);
    expect(before).to.equal(false);
    expect(status).to.equal(200);
  });
});
