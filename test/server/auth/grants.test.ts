import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/machine-identities";

describe("Nobody grants what they lack", () => {
  /** Holds the role admin, and so may manage identities, but not the role gateway:admin. */
  let deputy: Client;
  let deputysOwn = "";

  before(async () => {
    deputy = await server.as("deputy", ["admin"]);
    deputysOwn = (await deputy.rest("POST", path, { name: "deputys-own" })).body.id;
  });

  const bindings = () => server.sql("select identity_id, role, project_id from role_binding order by id");

  async function refuses(answer: ReturnType<Client["rest"]>, needs: string): Promise<void> {
    const { status, body } = await answer;
    expect(status, JSON.stringify(body)).to.equal(403);
    expect(body.error.code).to.equal("PERMISSION_DENIED");
    expect(body.error.message).to.include(needs);
  }

  it("to a new identity", async () => {
    const before = await bindings();

    await refuses(deputy.rest("POST", path, { name: "x", roles: ["gateway:admin"] }), "gateway:admin");
    await refuses(deputy.rest("POST", path, { name: "x", roles: ["viewer", "gateway:admin"] }), "gateway:admin");

    expect(await bindings()).to.deep.equal(before);
    expect((await server.admin.rest("GET", `${path}?search=x`)).body.data).to.deep.equal([]);
  });

  it("to an identity that is there, or to themselves", async () => {
    const before = await bindings();

    await refuses(deputy.rest("PUT", `${path}/${deputysOwn}`, { roles: ["gateway:admin"] }), "gateway:admin");
    await refuses(deputy.rest("PUT", `${path}/${deputy.id}`, { roles: ["admin", "gateway:admin"] }), "gateway:admin");

    expect(await bindings()).to.deep.equal(before);
  });

  it("to themselves by taking over one who has more: by a client secret, a change, or a removal", async () => {
    const { body: secrets } = await server.admin.rest("GET", `${path}/${server.admin.id}/client-secrets`);
    const administrator = `${path}/${server.admin.id}`;

    await refuses(deputy.rest("POST", `${administrator}/client-secrets`, {}), "gateway:admin");
    await refuses(deputy.rest("PUT", administrator, { name: "mine" }), "gateway:admin");
    await refuses(deputy.rest("PUT", administrator, { roles: ["viewer"] }), "gateway:admin");
    await refuses(deputy.rest("DELETE", administrator), "gateway:admin");
    await refuses(deputy.rest("DELETE", `${administrator}/client-secrets/${secrets.data[0].id}`), "gateway:admin");

    const { body } = await server.admin.rest("GET", `${administrator}/client-secrets`);
    expect(body).to.deep.equal(secrets);
  });

  it("but grants all that they hold, at the organization and at projects", async () => {
    const { status, body } = await deputy.rest("POST", path, {
      name: "granted",
      roles: ["admin", "editor", "viewer", "auditor"],
      project_roles: [{ project_id: server.projectId, role: "admin" }],
    });

    expect(status).to.equal(201);
    expect(body.roles).to.deep.equal(["admin", "editor", "viewer", "auditor"]);
    expect((await deputy.rest("POST", `${path}/${body.id}/client-secrets`, {})).status).to.equal(201);
  });

  it("except what agents and gateways hold, which whoever manages identities gives", async () => {
    const { status } = await deputy.rest("POST", path, { name: "an-agent", roles: ["agent", "gateway"] });

    expect(status).to.equal(201);
  });

  it("and loses the power with the role, at once", async () => {
    const former = await server.as("former", ["admin"]);
    await server.admin.rest("PUT", `${path}/${former.id}`, { roles: ["editor"] });

    await refuses(former.rest("POST", path, { name: "late" }), "identity:write");
  });

  it("in another organization than the first: its administrator is no gateway:admin", async () => {
    const { admin: theirs } = await server.otherOrganization();

    await refuses(theirs.rest("POST", path, { name: "x", roles: ["gateway:admin"] }), "gateway:admin");
  });

  it("and each refusal is on record with who tried", async () => {
    const { body } = await deputy.rest("POST", path, { name: "x", roles: ["gateway:admin"] });

    const [event] = await server.sql("select * from audit_event where request_id = $1", [body.error.request_id]);
    expect(event).to.include({ action: "machine_identity.create", outcome: "denied", actor_name: "deputy" });
    expect(event.reason).to.equal("PERMISSION_DENIED");
  });
});
