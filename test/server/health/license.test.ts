import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const server = useServer();

describe("Past the end of a license that an operator set", () => {
  let admin: Client;
  let secretId = "";

  before(async () => {
    secretId = (await server.secret({ value: "kept" })).id;
    const replica = await server.startReplica({ LICENSE_EXPIRES_AT: "2020-01-01T00:00:00Z" });
    admin = await server.login(server.clientId, server.clientSecret, urlOf(replica));
  });

  it("logins and reads go on", async () => {
    const { status, body } = await admin.rest("GET", `/api/v1/secrets/${secretId}`);

    expect(status).to.equal(200);
    expect(body.value).to.equal("kept");
    expect((await admin.rest("GET", `/api/v1/secrets?project_id=${server.projectId}`)).status).to.equal(200);
  });

  it("writes are 403 LICENSE_EXPIRED and change nothing", async () => {
    const requests: [string, string, unknown?][] = [
      ["POST", "/api/v1/secrets", { project_id: server.projectId, key: "unlicensed", value: "v" }],
      ["PUT", `/api/v1/secrets/${secretId}`, { value: "new" }],
      ["DELETE", `/api/v1/secrets/${secretId}`],
      ["POST", "/api/v1/projects", { name: "unlicensed" }],
    ];
    for (const [verb, path, request] of requests) {
      const { status, body } = await admin.rest(verb, path, request);
      expect(status, `${verb} ${path}`).to.equal(403);
      expect(body.error.code).to.equal("LICENSE_EXPIRED");
    }
    expect((await admin.rest("GET", `/api/v1/secrets/${secretId}`)).body).to.include({ value: "kept", version: 1 });
    expect(await server.sql("select 1 from secret where key = 'unlicensed'")).to.deep.equal([]);
  });

  it("is the last of all checks", async () => {
    const codeOf = async (answer: ReturnType<Client["rest"]>) => (await answer).body.error.code;

    expect(await codeOf(admin.rest("PUT", `/api/v1/secrets/${secretId}`, { value: 5 }))).to.equal("VALIDATION_ERROR");
    expect(await codeOf(admin.rest("PUT", "/api/v1/secrets/x", { value: "v" }))).to.equal("RESOURCE_NOT_FOUND");
    const restore = admin.rest("POST", `/api/v1/secrets/${secretId}/restore`);
    expect(await codeOf(restore)).to.equal("RESOURCE_CONFLICT");
  });

  it("the health of the system says so, and is well", async () => {
    const { status, body } = await admin.rest("GET", "/api/v1/health/system");

    expect(status).to.equal(200);
    expect(body.status).to.equal("healthy");
    expect(body.components.license).to.deep.equal({
      status: "expired",
      expires_at: "2020-01-01T00:00:00.000Z",
      tier: "community",
    });
    expect((await admin.rest("GET", "/api/v1/health")).status).to.equal(200);
  });
});
