import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/api-tokens";
const unknown = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";
const recordKeys =
  "id owner_id name prefix permissions project_ids allowed_ips rate_limit_per_minute status revoked_reason expires_at last_used_at created_at".split(
    " ",
  );
const dayMs = 24 * 60 * 60_000;

async function newToken(fields: Record<string, unknown> = {}, by: Client = server.admin) {
  const { status, body } = await by.rest("POST", path, { name: "ci", ...fields });
  expect(status, JSON.stringify(body)).to.equal(201);
  return { record: body, client: new Client(by.url, body.token) };
}

const daysUntil = (time: string) => Math.round((Date.parse(time) - Date.now()) / dayMs);
const refusal = async (by: Client, fields: Record<string, unknown>) => {
  const { status, body } = await by.rest("POST", path, { name: "ci", ...fields });
  return [status, body.error?.code, body.error?.details[0]?.field ?? body.error?.message].join(" ");
};

describe("An API token", () => {
  it("is shown by the 201 that made it and by nothing else, and acts for its owner", async () => {
    const { status, headers, body } = await server.admin.rest("POST", path, { name: "ci" });
    const { token, ...record } = body;

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`${path}/${body.id}`);
    expect(body).to.have.all.keys(...recordKeys, "token");
    expect(token).to.match(/^hf_[A-Za-z0-9_-]{43}$/);
    expect(record).to.include({ name: "ci", owner_id: server.admin.id, prefix: token.slice(0, 7), status: "active" });
    expect(record).to.include({ last_used_at: null, revoked_reason: null });
    expect(daysUntil(record.expires_at)).to.equal(90);
    expect((await server.admin.rest("GET", `${path}/${body.id}`)).body).to.deep.equal(record);
    expect((await server.admin.rest("GET", path)).body.data[0]).to.deep.equal(record);
    expect((await new Client(server.url, token).rest("GET", "/api/v1/whoami")).body).to.deep.include({
      id: server.admin.id,
      credential: { type: "api_token", id: body.id, expires_at: record.expires_at },
    });
  });

  it("is stored as a keyed hash only", async () => {
    const { record } = await newToken();

    const [row] = await server.sql("select * from api_token where id = $1", [record.id]);

    expect(row.hash).to.have.length(32);
    expect(JSON.stringify(row)).not.to.include(record.token.slice(7));
  });

  it("ends after the days or at the time that were asked for, or never for an explicit null", async () => {
    const at = new Date(Date.now() + 5 * dayMs).toISOString();

    expect(daysUntil((await newToken({ expires_in_days: 7 })).record.expires_at)).to.equal(7);
    expect((await newToken({ expires_at: at })).record.expires_at).to.equal(at);
    expect((await newToken({ expires_in_days: null })).record.expires_at).to.equal(null);
    expect((await newToken({ expires_at: null })).record.expires_at).to.equal(null);
  });

  it("is not made with an end that is none", async () => {
    const past = new Date(Date.now() - 1000).toISOString();
    const far = new Date(Date.now() + 366 * dayMs).toISOString();

    expect(await refusal(server.admin, { expires_in_days: 0 })).to.equal("400 VALIDATION_ERROR expires_in_days");
    expect(await refusal(server.admin, { expires_in_days: 366 })).to.equal("400 VALIDATION_ERROR expires_in_days");
    expect(await refusal(server.admin, { expires_at: past })).to.equal("400 VALIDATION_ERROR expires_at");
    expect(await refusal(server.admin, { expires_at: far })).to.equal("400 VALIDATION_ERROR expires_at");
    expect(await refusal(server.admin, { expires_at: far, expires_in_days: 1 })).to.equal(
      "400 VALIDATION_ERROR expires_at",
    );
    expect(await refusal(server.admin, { name: "" })).to.equal("400 VALIDATION_ERROR name");
    expect(await refusal(server.admin, { permissions: ["secret:read", "no"] })).to.equal(
      "400 VALIDATION_ERROR permissions[1]",
    );
    expect(await refusal(server.admin, { allowed_ips: ["10.0.0.0/33"] })).to.equal(
      "400 VALIDATION_ERROR allowed_ips[0]",
    );
    expect(await refusal(server.admin, { project_ids: [unknown] })).to.equal("404 RESOURCE_NOT_FOUND project_ids[0]");
  });

  it("is told apart as AUTH_EXPIRED past its end, and AUTH_INVALID when it is none or revoked", async () => {
    const { record, client } = await newToken();
    const { record: other, client: revoked } = await newToken();
    await server.sql("update api_token set expires_at = now() where id = $1", [record.id]);
    await server.admin.rest("DELETE", `${path}/${other.id}`);

    const codes = [];
    for (const each of [
      client,
      revoked,
      new Client(server.url, `hf_${"x".repeat(43)}`),
      new Client(server.url, "hf_"),
    ]) {
      const { status, headers, body } = await each.rest("GET", "/api/v1/projects");
      codes.push([status, body.error.code, headers.get("www-authenticate")]);
    }

    const invalid = [401, "AUTH_INVALID", 'Bearer realm="holdfast", error="invalid_token"'];
    expect(codes).to.deep.equal([
      [401, "AUTH_EXPIRED", 'Bearer realm="holdfast", error="invalid_token"'],
      invalid,
      invalid,
      invalid,
    ]);
    expect((await server.admin.rest("GET", `${path}/${record.id}`)).body.status).to.equal("expired");
    expect((await server.admin.rest("GET", `${path}/${other.id}`)).body).to.deep.include({
      status: "revoked",
      revoked_reason: "revoked by administrator",
    });
  });

  it("ends on every replica at once when it is revoked", async () => {
    const replica = await server.startReplica();
    for (let round = 0; round < 20; round += 1) {
      const { record, client } = await newToken();
      const there = new Client(urlOf(replica), client.token);
      expect((await there.rest("GET", "/api/v1/whoami")).status).to.equal(200);
      expect((await client.rest("GET", "/api/v1/whoami")).status).to.equal(200);

      await server.admin.rest("DELETE", `${path}/${record.id}`);

      expect((await there.rest("GET", "/api/v1/whoami")).status).to.equal(401);
      expect((await client.rest("GET", "/api/v1/whoami")).status).to.equal(401);
    }
  });

  it("is revoked once: the second time there is nothing to revoke", async () => {
    const { record } = await newToken();

    expect((await server.admin.rest("DELETE", `${path}/${record.id}`)).status).to.equal(204);
    expect((await server.admin.rest("DELETE", `${path}/${record.id}`)).status).to.equal(404);
  });

  it("may do what both it and its owner may, at the time of use", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "restricted" });
    const elsewhere = await server.secret();
    const { id } = await server.secret({ project_id: project.id });
    const editor = await server.as("scoped-editor", ["editor"]);
    const { client: reader } = await newToken({ permissions: ["secret:read"] }, editor);
    const { client: inProject } = await newToken({ project_ids: [project.id] }, editor);

    expect((await reader.rest("GET", `/api/v1/secrets/${id}`)).status).to.equal(200);
    expect((await reader.rest("DELETE", `/api/v1/secrets/${id}`)).status).to.equal(403);
    expect((await inProject.rest("GET", `/api/v1/secrets/${id}`)).status).to.equal(200);
    expect((await inProject.rest("GET", `/api/v1/secrets/${elsewhere.id}`)).status).to.equal(403);
    const { data } = (await inProject.rest("GET", "/api/v1/projects")).body;
    expect(data.map(({ name }: { name: string }) => name)).to.deep.equal(["restricted"]);

    await server.admin.rest("PUT", `/api/v1/machine-identities/${editor.id}`, { roles: ["auditor"] });

    expect((await reader.rest("GET", `/api/v1/secrets/${id}`)).status).to.equal(403);
    expect((await inProject.rest("GET", `/api/v1/secrets/${id}`)).status).to.equal(403);
  });

  it("holds the role gateway:admin of its owner only when it is unrestricted, or restricted to it by name", async () => {
    const rolesOf = async (fields: Record<string, unknown>) =>
      (await (await newToken(fields)).client.rest("GET", "/api/v1/whoami")).body.roles;

    expect(await rolesOf({})).to.have.members(["admin", "gateway:admin"]);
    expect(await rolesOf({ permissions: ["secret:read"] })).to.deep.equal([]);
    expect(await rolesOf({ permissions: ["secret:read", "gateway:admin"] })).to.deep.equal(["gateway:admin"]);
    expect(await rolesOf({ project_ids: [server.projectId] })).to.deep.equal([]);
  });

  it("is not restricted to what its maker does not hold", async () => {
    const viewer = await server.as("token-viewer", ["viewer"]);

    expect(await refusal(viewer, { permissions: ["secret:write"] })).to.equal(
      "403 PERMISSION_DENIED permission secret:write is required",
    );
    expect(await refusal(viewer, { permissions: ["gateway:admin"] })).to.equal(
      "403 PERMISSION_DENIED permission gateway:admin is required",
    );
    expect(await refusal(viewer, { rate_limit_per_minute: 1000 })).to.equal(
      "403 PERMISSION_DENIED permission api_token:admin is required",
    );
  });

  it("makes no token that may do or last more than itself", async () => {
    const { client: reader, record } = await newToken({
      permissions: ["secret:read", "project:read"],
      expires_in_days: 5,
    });
    const { client: inProject } = await newToken({ project_ids: [server.projectId] });
    const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: "not for the token" });

    const { record: child } = await newToken({}, reader);
    const { record: grandchild } = await newToken({}, inProject);

    expect(child.permissions).to.deep.equal(["secret:read", "project:read"]);
    expect(child.expires_at).to.equal(record.expires_at);
    expect(grandchild.project_ids).to.deep.equal([server.projectId]);
    expect(await refusal(reader, { permissions: ["secret:write"] })).to.match(/^403 /);
    expect(await refusal(reader, { expires_in_days: 6 })).to.equal("400 VALIDATION_ERROR expires_in_days");
    expect(await refusal(reader, { expires_in_days: null })).to.equal("400 VALIDATION_ERROR expires_in_days");
    expect(await refusal(inProject, { project_ids: [other.id] })).to.match(/^403 /);
  });

  it("ends with the token that made it, and so do those that it made", async () => {
    const { record: parent, client } = await newToken();
    const { record: child, client: byChild } = await newToken({}, client);
    const { client: byGrandchild } = await newToken({}, byChild);
    const { client: sibling } = await newToken();
    expect((await byGrandchild.rest("GET", "/api/v1/whoami")).status).to.equal(200);

    await server.admin.rest("DELETE", `${path}/${parent.id}`);

    for (const each of [client, byChild, byGrandchild]) {
      expect((await each.rest("GET", "/api/v1/whoami")).body.error.code).to.equal("AUTH_INVALID");
    }
    expect((await sibling.rest("GET", "/api/v1/whoami")).status).to.equal(200);
    const { body } = await server.admin.rest("GET", `${path}/${child.id}`);
    expect(body.revoked_reason).to.equal("revoked by administrator, with the token that made it");
  });

  it("is used from the addresses that it allows only", async () => {
    const { client: here } = await newToken({ allowed_ips: ["127.0.0.0/8"] });
    const { client: elsewhere } = await newToken({ allowed_ips: ["10.0.0.0/8"] });

    expect((await here.rest("GET", "/api/v1/whoami")).status).to.equal(200);
    expect((await elsewhere.rest("GET", "/api/v1/whoami")).body.error.code).to.equal("PERMISSION_DENIED");
  });

  it("says when it was last used, written at most once a minute", async () => {
    const { record, client } = await newToken();
    const lastUsed = async () => (await server.admin.rest("GET", `${path}/${record.id}`)).body.last_used_at;

    await client.rest("GET", "/api/v1/whoami");
    while ((await lastUsed()) === null) await sleep(5);
    const first = await lastUsed();
    await client.rest("GET", "/api/v1/whoami");
    const { xmin } = (await server.sql("select xmin from api_token where id = $1", [record.id]))[0];
    for (let use = 0; use < 20; use += 1) await client.rest("GET", "/api/v1/whoami");

    expect(Date.now() - Date.parse(first)).to.be.lessThan(60_000);
    expect((await server.sql("select xmin from api_token where id = $1", [record.id]))[0].xmin).to.equal(xmin);
  });

  it("shows in the audit log which token it was", async () => {
    const { record, client } = await newToken();
    const { id } = await server.secret();

    await client.rest("GET", `/api/v1/secrets/${id}`);

    const { body } = await server.admin.rest("GET", `/api/v1/audit-logs?action=secret.read_value&resource_id=${id}`);
    expect(body.data[0].actor).to.include({ id: server.admin.id, name: "administrator" });
    expect(body.data[0].details.api_token_id).to.equal(record.id);
  });
});

describe("API tokens of others", () => {
  it("are seen and revoked with api_token:admin only", async () => {
    const owner = await server.as("token-owner", ["viewer"]);
    const colleague = await server.as("token-colleague", ["viewer"]);
    const { record, client } = await newToken({}, owner);

    for (const [method, target] of [
      ["GET", `${path}/${record.id}`],
      ["DELETE", `${path}/${record.id}`],
      ["GET", `${path}?owner_id=${owner.id}`],
    ] as const) {
      const { status, body } = await colleague.rest(method, target);
      expect([status, body.error.message], target).to.deep.equal([403, "permission api_token:admin is required"]);
    }
    expect((await server.admin.rest("GET", `${path}?owner_id=${owner.id}`)).body.data).to.have.length(1);
    expect((await server.admin.rest("GET", path)).body.data.map(({ id }: { id: string }) => id)).not.to.include(
      record.id,
    );
    expect((await server.admin.rest("DELETE", `${path}/${record.id}`)).status).to.equal(204);
    expect((await client.rest("GET", "/api/v1/whoami")).status).to.equal(401);
  });

  it("of another organization are not there", async () => {
    const { admin: stranger } = await server.otherOrganization();
    const { record } = await newToken();

    expect((await stranger.rest("GET", `${path}/${record.id}`)).status).to.equal(404);
    expect((await stranger.rest("DELETE", `${path}/${record.id}`)).status).to.equal(404);
    const { status, body } = await stranger.rest("GET", `${path}?owner_id=${server.admin.id}`);
    expect([status, body.error.details[0].field]).to.deep.equal([404, "owner_id"]);
  });

  it("are listed newest first, by status, page by page", async () => {
    const owner = await server.as("token-lister", ["viewer"]);
    const ids: string[] = [];
    for (const name of ["one", "two", "three"]) ids.push((await newToken({ name }, owner)).record.id);
    await owner.rest("DELETE", `${path}/${ids[0]}`);

    const active = await owner.rest("GET", `${path}?status=active&per_page=1&page=2`);

    expect(active.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([ids[1]]);
    expect(active.body.pagination).to.deep.equal({ page: 2, per_page: 1, total: 2 });
    expect(active.headers.get("x-total-count")).to.equal("2");
  });
});

describe("The limit of API calls", () => {
  const limited = useServer({ RATE_LIMIT_API: "5" });

  it("is counted for each API token by itself, and can be one's own", async () => {
    const { body: one } = await limited.admin.rest("POST", path, { name: "one" });
    const { body: two } = await limited.admin.rest("POST", path, { name: "two", rate_limit_per_minute: 50 });
    const remaining = async (token: string) => {
      const { headers } = await new Client(limited.url, token).rest("GET", "/api/v1/whoami");
      return [headers.get("x-ratelimit-limit"), headers.get("x-ratelimit-remaining")];
    };

    expect(await remaining(one.token)).to.deep.equal(["5", "4"]);
    expect(await remaining(one.token)).to.deep.equal(["5", "3"]);
    expect(await remaining(two.token)).to.deep.equal(["50", "49"]);
  });
});
