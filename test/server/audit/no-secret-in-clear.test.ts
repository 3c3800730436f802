import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { disguises, dump } from "../../harness/leaks.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ LOG_LEVEL: "trace" });

/** A value that is found wherever it shows up. */
const marked = (name: string) => `${name}-${randomBytes(12).toString("hex")}`;

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
    const everything = await dump(server);

    expect(everything).to.include("a reason");
    for (const [name, secret] of Object.entries(plain)) {
      for (const disguise of disguises(Buffer.from(secret)))
        expect(everything.includes(disguise), name).to.equal(false);
    }
  });

  it("in the log, at its most talkative", () => {
    expect(server.log).to.include('"msg":"call"');
    expect(server.log).to.include("CreateSecret");
    for (const [name, secret] of Object.entries(plain)) {
      for (const disguise of disguises(Buffer.from(secret)))
        expect(server.log.includes(disguise), name).to.equal(false);
    }
  });

  it("in the audit log as it is answered", async () => {
    const { body } = await server.admin.rest("GET", "/api/v1/audit-logs?per_page=100");

    const text = JSON.stringify(body);
    expect(body.pagination.total).to.be.within(15, 100);
    for (const [name, secret] of Object.entries(plain)) expect(text.includes(secret), name).to.equal(false);
  });
});
