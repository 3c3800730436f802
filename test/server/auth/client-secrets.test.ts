import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const recordKeys = "id description prefix max_uses use_count status revoked_reason expires_at created_at".split(" ");

async function newIdentity() {
  const { body } = await server.admin.rest("POST", "/api/v1/machine-identities", { name: `identity-${Math.random()}` });
  return { clientId: body.client_id as string, path: `/api/v1/machine-identities/${body.id}/client-secrets` };
}

const login = (client_id: string, client_secret: string) =>
  server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", { client_id, client_secret });

const only = async (path: string) => (await server.admin.rest("GET", path)).body.data[0];

describe("A client secret", () => {
  it("is shown by the 201 that made it and by nothing else", async () => {
    const { path } = await newIdentity();

    const { status, body } = await server.admin.rest("POST", path, { description: "pipeline" });
    const list = await server.admin.rest("GET", path);

    expect(status).to.equal(201);
    expect(body).to.have.all.keys(...recordKeys, "client_secret");
    expect(body).to.include({ description: "pipeline", max_uses: null, use_count: 0, status: "active" });
    expect(body).to.include({ revoked_reason: null, expires_at: null });
    expect(body.client_secret).to.match(/^hfcs_[A-Za-z0-9_-]{43}$/);
    expect(body.prefix).to.equal(body.client_secret.slice(0, 9));
    const { client_secret: _, ...rest } = body;
    expect(list.body).to.deep.equal({ data: [rest], pagination: { page: 1, per_page: 25, total: 1 } });
  });

  it("is stored as a keyed hash only", async () => {
    const { path } = await newIdentity();
    const { body } = await server.admin.rest("POST", path, {});

    const [row] = await server.sql("select * from client_secret where id = $1", [body.id]);

    expect(row.hash).to.have.length(32);
    expect(JSON.stringify(row)).not.to.include(body.client_secret.slice(9));
  });

  it("is one of several, which work side by side", async () => {
    const { clientId, path } = await newIdentity();
    const first = (await server.admin.rest("POST", path, {})).body;
    const second = (await server.admin.rest("POST", path, {})).body;

    await server.admin.rest("DELETE", `${path}/${first.id}`);

    expect((await login(clientId, first.client_secret)).status).to.equal(401);
    expect((await login(clientId, second.client_secret)).status).to.equal(200);
    const { body } = await server.admin.rest("GET", path);
    expect(body.data.map(({ id }: { id: string }) => id)).to.deep.equal([second.id, first.id]);
  });

  it("belongs to one identity", async () => {
    const [mine, theirs] = [await newIdentity(), await newIdentity()];
    const { body } = await server.admin.rest("POST", mine.path, {});

    expect((await login(theirs.clientId, body.client_secret)).status).to.equal(401);
    expect((await server.admin.rest("DELETE", `${theirs.path}/${body.id}`)).status).to.equal(404);
    expect((await login(mine.clientId, body.client_secret)).status).to.equal(200);
  });

  it("that is revoked ends at once, stays listed, and says so: 204, then 404", async () => {
    const { clientId, path } = await newIdentity();
    const { body: secret } = await server.admin.rest("POST", path, {});

    const first = await server.admin.rest("DELETE", `${path}/${secret.id}`);
    const second = await server.admin.rest("DELETE", `${path}/${secret.id}`);

    expect([first.status, second.status]).to.deep.equal([204, 404]);
    expect((await login(clientId, secret.client_secret)).body.error.code).to.equal("AUTH_INVALID");
    expect(await only(path)).to.include({ status: "revoked", revoked_reason: "revoked by administrator" });
  });

  it("that has ended is 401 from an address that its identity may not use, too: nobody learns that it was one", async () => {
    const { body: identity } = await server.admin.rest("POST", "/api/v1/machine-identities", {
      name: "elsewhere",
      allowed_ips: ["10.0.0.0/8"],
    });
    const path = `/api/v1/machine-identities/${identity.id}/client-secrets`;
    const { body: ended } = await server.admin.rest("POST", path, {});
    const { body: good } = await server.admin.rest("POST", path, {});
    await server.admin.rest("DELETE", `${path}/${ended.id}`);

    expect((await login(identity.client_id, ended.client_secret)).status).to.equal(401);
    expect((await login(identity.client_id, good.client_secret)).status).to.equal(403);
  });

  it("that has expired no longer works, and says so", async () => {
    const { clientId, path } = await newIdentity();
    const { body: secret } = await server.admin.rest("POST", path, { ttl_hours: 2 });
    expect(Date.parse(secret.expires_at) - Date.parse(secret.created_at)).to.equal(2 * 3_600_000);
    expect((await login(clientId, secret.client_secret)).status).to.equal(200);
    await server.sql("update client_secret set expires_at = now() where id = $1", [secret.id]);

    expect((await login(clientId, secret.client_secret)).status).to.equal(401);
    expect(await only(path)).to.include({ status: "expired", revoked_reason: null });
  });

  it("with max_uses gives exactly so many tokens, also to many who ask at once", async () => {
    const { clientId, path } = await newIdentity();
    const { body: secret } = await server.admin.rest("POST", path, { max_uses: 5 });

    const answers = await Promise.all(Array.from({ length: 20 }, () => login(clientId, secret.client_secret)));

    expect(answers.filter(({ status }) => status === 200)).to.have.length(5);
    expect(answers.filter(({ status }) => status === 401)).to.have.length(15);
    expect(await only(path)).to.include({ max_uses: 5, use_count: 5, status: "used_up" });
  });

  it("is not used up by wrong guesses or refused logins", async () => {
    const { clientId, path } = await newIdentity();
    const { body: secret } = await server.admin.rest("POST", path, { max_uses: 1 });

    for (let guess = 0; guess < 3; guess += 1) await login(clientId, `wrong-${guess}`);

    expect(await only(path)).to.include({ use_count: 0, status: "active" });
    expect((await login(clientId, secret.client_secret)).status).to.equal(200);
  });

  it("is refused with anything outside the limits, by name", async () => {
    const { path } = await newIdentity();
    const cases: [string, Record<string, unknown>][] = [
      ["ttl_hours", { ttl_hours: 0 }],
      ["ttl_hours", { ttl_hours: 87_601 }],
      ["max_uses", { max_uses: 0 }],
      ["max_uses", { max_uses: "many" }],
      ["description", { description: "d".repeat(1025) }],
    ];
    for (const [field, fields] of cases) {
      const { status, body } = await server.admin.rest("POST", path, fields);
      expect(status, field).to.equal(400);
      expect(body.error.details[0].field).to.equal(field);
    }
  });
});
