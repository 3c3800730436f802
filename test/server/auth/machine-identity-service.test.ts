import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/machine-identities";
const recordKeys = [
  "id organization_id name client_id status roles project_roles access_token_ttl_seconds",
  "allowed_ips rate_limit_per_minute last_authenticated_at created_at updated_at",
].flatMap((line) => line.split(" "));

const create = (fields: Record<string, unknown> = {}) =>
  server.admin.rest("POST", path, { name: `identity-${Math.random()}`, ...fields });
const put = (id: string, body: unknown) => server.admin.rest("PUT", `${path}/${id}`, body);

describe("A machine identity", () => {
  it("is created with 201, a Location, its client id and nothing secret", async () => {
    const { status, headers, body } = await create({ name: "ci" });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`${path}/${body.id}`);
    expect(body).to.have.all.keys(recordKeys);
    expect(body).to.deep.include({
      name: "ci",
      status: "active",
      roles: [],
      project_roles: [],
      access_token_ttl_seconds: 3600,
      allowed_ips: [],
      rate_limit_per_minute: null,
      last_authenticated_at: null,
    });
    expect(body.client_id).to.be.a("string").that.is.not.empty;
  });

  it("keeps what it is given, each role once", async () => {
    const projectRole = { project_id: server.projectId, role: "editor" };
    const given = {
      roles: ["viewer", "auditor"],
      project_roles: [projectRole],
      access_token_ttl_seconds: 600,
      allowed_ips: ["10.0.0.0/8", "2001:db8::1"],
      rate_limit_per_minute: 1000,
    };

    const { body } = await create({
      ...given,
      roles: ["viewer", "auditor", "viewer"],
      project_roles: [projectRole, projectRole],
    });

    expect(body).to.deep.include(given);
    expect((await server.admin.rest("GET", `${path}/${body.id}`)).body).to.deep.equal(body);
  });

  it("has a name of its own in the organization", async () => {
    const { body } = await create();
    const { body: other } = await create();

    const created = await create({ name: body.name });
    const renamed = await put(other.id, { name: body.name });

    for (const answer of [created, renamed]) {
      expect(answer.status).to.equal(409);
      expect(answer.body.error.details[0].field).to.equal("name");
    }
  });

  it("is refused with anything outside the limits, by name", async () => {
    const unknown = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";
    const cases: [number, string, Record<string, unknown>][] = [
      [400, "name", { name: "" }],
      [400, "name", { name: "n".repeat(256) }],
      [400, "roles[1]", { roles: ["viewer", "owner"] }],
      [400, "roles[0]", { roles: ["toString"] }],
      [400, "project_roles[0].role", { project_roles: [{ project_id: server.projectId, role: "owner" }] }],
      [400, "project_roles[0].role", { project_roles: [{ project_id: server.projectId, role: "gateway:admin" }] }],
      [400, "project_roles[0].project_id", { project_roles: [{ project_id: "default", role: "viewer" }] }],
      [404, "project_roles[0].project_id", { project_roles: [{ project_id: unknown, role: "viewer" }] }],
      [400, "access_token_ttl_seconds", { access_token_ttl_seconds: 0 }],
      [400, "access_token_ttl_seconds", { access_token_ttl_seconds: 86_401 }],
      [400, "allowed_ips[0]", { allowed_ips: ["localhost"] }],
      [400, "allowed_ips[1]", { allowed_ips: ["10.0.0.1", "10.0.0.0/33"] }],
      [400, "allowed_ips[0]", { allowed_ips: ["10.0.0.0/8/8"] }],
      [400, "rate_limit_per_minute", { rate_limit_per_minute: 10_001 }],
    ];
    for (const [expected, field, fields] of cases) {
      const { status, body } = await create(fields);
      expect(status, `${field} ${JSON.stringify(body)}`).to.equal(expected);
      expect(body.error.details[0].field).to.equal(field);
    }
  });

  it("changes in what is mentioned and nothing else; null returns to the installation's setting", async () => {
    const { body: created } = await create({
      roles: ["viewer"],
      allowed_ips: ["10.0.0.1"],
      access_token_ttl_seconds: 60,
    });

    const { body: renamed } = await put(created.id, { name: "renamed" });
    const { body: opened } = await put(created.id, { allowed_ips: [], access_token_ttl_seconds: null, roles: [] });

    const { updated_at: _, ...rest } = created;
    expect(renamed).to.deep.include({ ...rest, name: "renamed" });
    expect(opened).to.deep.include({ name: "renamed", allowed_ips: [], access_token_ttl_seconds: 3600, roles: [] });
  });

  it("keeps every change of two that are made at once", async () => {
    for (let round = 0; round < 5; round += 1) {
      const { body: created } = await create();

      await Promise.all([
        put(created.id, { name: `${created.name}-new` }),
        put(created.id, { allowed_ips: ["10.0.0.1"] }),
        put(created.id, { rate_limit_per_minute: 7 }),
        put(created.id, { roles: ["viewer"] }),
        put(created.id, { project_roles: [{ project_id: server.projectId, role: "editor" }] }),
      ]);

      const { body } = await server.admin.rest("GET", `${path}/${created.id}`);
      const expected = { name: `${created.name}-new`, allowed_ips: ["10.0.0.1"], rate_limit_per_minute: 7 };
      expect(body).to.deep.include({ ...expected, roles: ["viewer"] });
      expect(body.project_roles).to.have.length(1);
    }
  });

  it("is listed by name, in pages, and found by part of its name", async () => {
    for (const name of ["zebra-b", "zebra-a", "Zebra-c"]) await create({ name });

    const { headers, body } = await server.admin.rest("GET", `${path}?search=ZEBRA&per_page=2`);

    expect(body.data.map(({ name }: { name: string }) => name)).to.deep.equal(["Zebra-c", "zebra-a"]);
    expect(body.data[0]).to.have.all.keys(recordKeys);
    expect(body.pagination).to.deep.equal({ page: 1, per_page: 2, total: 3 });
    expect(headers.get("x-total-count")).to.equal("3");
  });

  it("ends with its tokens, secrets and roles: 204, then 404", async () => {
    const client = await server.as("ending", ["viewer"]);
    await client.rest("POST", "/api/v1/api-tokens", { name: "ci" });

    const first = await server.admin.rest("DELETE", `${path}/${client.id}`);
    const second = await server.admin.rest("DELETE", `${path}/${client.id}`);

    expect([first.status, second.status]).to.deep.equal([204, 404]);
    expect((await client.rest("GET", "/api/v1/projects")).body.error.code).to.equal("AUTH_INVALID");
    const left = await server.sql(
      `select 1 from client_secret where machine_identity_id = $1
       union all select 1 from role_binding where identity_id = $1
       union all select 1 from api_token where owner_id = $1`,
      [client.id],
    );
    expect(left).to.deep.equal([]);
  });

  it("that is disabled is kept out at once, and let in again, but not with the tokens from before", async () => {
    const client = await server.as("switched", ["viewer"]);
    const { body: identity } = await server.admin.rest("GET", `${path}/${client.id}`);
    const { body: secret } = await server.admin.rest("POST", `${path}/${client.id}/client-secrets`, {});
    const { body: apiToken } = await client.rest("POST", "/api/v1/api-tokens", { name: "ci" });
    const use = async (token: string | undefined) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await server.anonymous.rest("GET", "/api/v1/projects", undefined, headers)).status;
    };
    const login = () =>
      server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", {
        client_id: identity.client_id,
        client_secret: secret.client_secret,
      });
    const before = [await use(client.token), await use(apiToken.token)];

    const disabled = await server.admin.rest("POST", `${path}/${client.id}/disable`, {});
    const meanwhile = [await use(client.token), await use(apiToken.token), (await login()).status];
    const enabled = await server.admin.rest("POST", `${path}/${client.id}/enable`, {});
    const after = [await use(client.token), await use(apiToken.token), await use((await login()).body.access_token)];

    expect([disabled.body.status, enabled.body.status]).to.deep.equal(["disabled", "active"]);
    expect(before).to.deep.equal([200, 200]);
    expect(meanwhile).to.deep.equal([401, 401, 401]);
    expect(after).to.deep.equal([401, 200, 200]);
  });

  it("stays as it is when disabled again, and so does one that is enabled", async () => {
    const { body: created } = await create();
    const act = (verb: string) => server.admin.rest("POST", `${path}/${created.id}/${verb}`, {});

    const answers = [await act("disable"), await act("disable"), await act("enable"), await act("enable")];

    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 200, 200]);
    expect(answers[1]?.body).to.deep.equal(answers[0]?.body);
    expect(answers[3]?.body).to.deep.equal(answers[2]?.body);
  });

  it("is found by its id in capitals too", async () => {
    const { body: created } = await create();

    const { status, body } = await put(created.id.toUpperCase(), { roles: ["viewer"] });

    expect(status).to.equal(200);
    expect(body).to.deep.include({ id: created.id, roles: ["viewer"] });
  });

  it("may call from its allowed addresses only, for a token as with one", async () => {
    const admitted = await server.as("admitted", { roles: ["viewer"], allowedIps: ["127.0.0.0/8", "::1"] });
    const { status: before } = await admitted.rest("GET", "/api/v1/projects");
    const { body: identity } = await put(admitted.id, { allowed_ips: ["192.0.2.0/24"] });
    const { body: secret } = await server.admin.rest("POST", `${path}/${admitted.id}/client-secrets`, {});

    const call = await admitted.rest("GET", "/api/v1/projects", undefined, { "x-forwarded-for": "192.0.2.1" });
    const login = await server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", {
      client_id: identity.client_id,
      client_secret: secret.client_secret,
    });

    expect(before).to.equal(200);
    for (const { status, body } of [call, login]) {
      expect(status).to.equal(403);
      expect(body.error.code).to.equal("PERMISSION_DENIED");
    }
  });

  it("is managed by those who hold identity:write, and seen by those who hold identity:read, at the organization", async () => {
    const { body: identity } = await create();
    const outsiders = [
      await server.as("an-editor", ["editor"]),
      await server.as("a-viewer", ["viewer"]),
      await server.as("a-gateway-admin", ["gateway:admin"]),
      await server.as("a-project-admin", { projectRoles: [{ project_id: server.projectId, role: "admin" }] }),
    ];
    for (const outsider of outsiders) {
      const answers = [
        await outsider.rest("POST", path, { name: "more" }),
        await outsider.rest("GET", path),
        await outsider.rest("GET", `${path}/${identity.id}`),
        await outsider.rest("PUT", `${path}/${outsider.id}`, { roles: ["admin"] }),
        await outsider.rest("POST", `${path}/${identity.id}/disable`, {}),
        await outsider.rest("POST", `${path}/${identity.id}/enable`, {}),
        await outsider.rest("DELETE", `${path}/${identity.id}`),
        await outsider.rest("POST", `${path}/${outsider.id}/client-secrets`, {}),
        await outsider.rest("GET", `${path}/${outsider.id}/client-secrets`),
        await outsider.rest("DELETE", `${path}/${identity.id}/client-secrets/${identity.id}`),
      ];
      expect(answers.map(({ status }) => status)).to.deep.equal(Array(10).fill(403));
    }
  });
});
