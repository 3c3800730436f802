import { createHash } from "node:crypto";
import { expect } from "chai";
import { AgentLinkService } from "../../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import type { GrpcClient } from "../../../src/client/grpc-client.ts";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "./refusal.ts";

const server = useServer();
const path = "/api/v1/agents/enrollment-tokens";
const isRefused =
  "AUTH_INVALID: the enrollment token was used, has expired, or is not one for this host; have another one made";

let link: GrpcClient<typeof AgentLinkService>;
before(() => {
  link = server.anonymous.grpc(AgentLinkService);
});
after(() => link.close());

const create = (fields: Record<string, unknown> = {}, by = server.admin) => by.rest("POST", path, fields);
const enroll = (enrollmentToken: string, hostname = "web1", by = link) =>
  by.enroll({ enrollmentToken, hostname, version: "1.2.3", os: "Debian 13" });
const events = (action: string) =>
  server.sql("select * from audit_event where action = $1 order by occurred_at, id", [action]);
const listed = async (by = server.admin) =>
  (await by.rest("GET", `${path}?per_page=100`)).body.data as { id: string }[];

describe("An enrollment token", () => {
  it("is created with 201 and shown once", async () => {
    const { status, body } = await create();

    expect(status).to.equal(201);
    expect(body).to.have.all.keys("id", "prefix", "token", "hostname", "expires_at", "created_at");
    expect(body.token).to.match(/^hfa_[A-Za-z0-9_-]{43}$/);
    expect(body.prefix).to.equal(body.token.slice(0, 8));
    expect(body.hostname).to.equal(null);
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).to.equal(24 * 3_600_000);
    const { token: _, ...record } = body;
    expect((await listed()).find(({ id }) => id === body.id)).to.deep.equal(record);
  });

  it("lives as many hours as it is given, and is for the host that it is given", async () => {
    const { body } = await create({ ttl_hours: 2, hostname: "Web1.Example.COM" });

    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).to.equal(2 * 3_600_000);
    expect(body.hostname).to.equal("web1.example.com");
  });

  it("is refused outside the limits, by name", async () => {
    const cases: [string, Record<string, unknown>][] = [
      ["ttl_hours", { ttl_hours: 0 }],
      ["ttl_hours", { ttl_hours: 25 }],
      ["hostname", { hostname: "h".repeat(256) }],
    ];
    for (const [field, fields] of cases) {
      const { status, body } = await create(fields);

      expect(status, field).to.equal(400);
      expect(body.error.details[0].field).to.equal(field);
    }
  });

  it("is kept as a keyed hash only", async () => {
    const { body } = await create();

    const [row] = await server.sql("select * from agent_enrollment_token where id = $1", [body.id]);
    expect(JSON.stringify(row)).not.to.include(body.token);
    expect(row.hash.equals(createHash("sha256").update(body.token).digest())).to.equal(false);
  });

  it("is listed, newest first, while it can be used", async () => {
    const { admin } = await server.otherOrganization();
    const tokens = [];
    for (let each = 0; each < 5; each += 1) tokens.push((await create({}, admin)).body);
    const [first, used, expired, revoked, last] = tokens;
    await enroll(used.token);
    await server.sql("update agent_enrollment_token set expires_at = now() where id = $1", [expired.id]);
    await admin.rest("DELETE", `${path}/${revoked.id}`);

    const { body } = await admin.rest("GET", `${path}?per_page=1&page=2`);

    expect((await listed(admin)).map(({ id }) => id)).to.deep.equal([last.id, first.id]);
    expect(body.data.map(({ id }: { id: string }) => id)).to.deep.equal([first.id]);
    expect(body.pagination).to.deep.equal({ page: 2, per_page: 1, total: 2 });
  });

  it("is revoked with 204, once, and never when it was used", async () => {
    const { body: token } = await create();
    const { body: used } = await create();
    await enroll(used.token);

    const revoke = async ({ id }: { id: string }) => (await server.admin.rest("DELETE", `${path}/${id}`)).status;

    expect([await revoke(token), await revoke(token), await revoke(used)]).to.deep.equal([204, 404, 404]);
  });

  it("is unknown to other organizations", async () => {
    const { body: token } = await create();
    const { admin: stranger } = await server.otherOrganization();

    expect(await listed(stranger)).to.deep.equal([]);
    expect((await stranger.rest("DELETE", `${path}/${token.id}`)).status).to.equal(404);
    expect(await refusalOf(enroll(token.token))).to.equal("ok");
  });

  it("is recorded when it is made and when it is revoked, without its secret part", async () => {
    const { body: token } = await create({ hostname: "db1" });
    await server.admin.rest("DELETE", `${path}/${token.id}`);

    for (const action of ["agent.create_enrollment_token", "agent.revoke_enrollment_token"]) {
      const event = (await events(action)).at(-1);
      expect(event).to.include({
        outcome: "success",
        actor_name: "administrator",
        resource_type: "agent_enrollment_token",
        resource_id: token.id,
        resource_name: token.prefix,
      });
      expect(JSON.parse(event.details)).to.include({ hostname: "db1" });
      expect(JSON.stringify(event)).not.to.include(token.token);
    }
  });
});

describe("Enrollment", () => {
  it("makes an agent whose own credentials let it in, as an identity with the role agent", async () => {
    const { body: token } = await create();

    const { agentId, clientId, clientSecret } = await enroll(token.token, "Web7");
    const agent = await server.login(clientId, clientSecret);

    expect(agent.id).to.equal(agentId);
    const { body: record } = await server.admin.rest("GET", `/api/v1/agents/${agentId}`);
    expect(record).to.include({ hostname: "Web7", version: "1.2.3", os: "Debian 13", status: "offline" });
    expect(record.last_heartbeat).to.equal(null);
    const { body: identity } = await server.admin.rest("GET", `/api/v1/machine-identities/${agentId}`);
    expect(identity.name).to.match(/^agent Web7 [0-9a-f]{12}$/);
    expect(identity).to.deep.include({ roles: ["agent"], project_roles: [], status: "active" });
  });

  it("takes a hostname of any length that a name has, and the same one twice", async () => {
    const hostname = "ü".repeat(255);
    const [{ body: one }, { body: other }] = await Promise.all([create(), create()]);

    await enroll(one.token, hostname);
    const { agentId } = await enroll(other.token, hostname);

    expect((await server.admin.rest("GET", `/api/v1/agents/${agentId}`)).body.hostname).to.equal(hostname);
    expect((await server.admin.rest("GET", `/api/v1/machine-identities/${agentId}`)).status).to.equal(200);
  });

  it("is for the named host only, whatever its case", async () => {
    const { body: token } = await create({ hostname: "web1.EXAMPLE.com" });

    expect(await refusalOf(enroll(token.token, "web2.example.com"))).to.equal(isRefused);
    expect(await refusalOf(enroll(token.token, "WEB1.example.com"))).to.equal("ok");
  });

  it("says the same of a token that is wrong, used, expired, revoked or another host's", async () => {
    const [used, expired, revoked, foreign] = await Promise.all([
      create(),
      create(),
      create(),
      create({ hostname: "elsewhere" }),
    ]);
    await enroll(used.body.token);
    await server.sql("update agent_enrollment_token set expires_at = now() where id = $1", [expired.body.id]);
    await server.admin.rest("DELETE", `${path}/${revoked.body.id}`);

    const tokens = ["hfa_guess", ...[used, expired, revoked, foreign].map(({ body }) => body.token)];
    const refusals = await Promise.all(tokens.map((token) => refusalOf(enroll(token))));

    expect(new Set(refusals)).to.deep.equal(new Set([isRefused]));
  });

  it("is done once with a token that is used by many at once, on two replicas", async () => {
    const replica = await server.startReplica();
    const elsewhere = new Client(urlOf(replica), undefined).grpc(AgentLinkService);
    const countAgents = async () => (await server.sql("select count(*)::int as agents from agent"))[0].agents;
    for (let round = 0; round < 5; round += 1) {
      const { body: token } = await create();
      const before = await countAgents();

      const doors = [link, elsewhere, link, elsewhere];
      const outcomes = await Promise.all(doors.map((door) => refusalOf(enroll(token.token, "web1", door))));

      expect(outcomes.filter((outcome) => outcome === "ok")).to.have.length(1);
      expect(outcomes.filter((outcome) => outcome === isRefused)).to.have.length(3);
      expect(await countAgents()).to.equal(before + 1);
    }
    elsewhere.close();
  });

  it("leaves the token as it was when a field is refused", async () => {
    const { body: token } = await create();

    const tooLong = link.enroll({ enrollmentToken: token.token, hostname: "h".repeat(256), version: "", os: "" });

    expect(await refusalOf(tooLong)).to.match(/^VALIDATION_ERROR/);
    expect(await refusalOf(enroll(token.token))).to.equal("ok");
  });

  it("is recorded as done by nobody, about the agent, in the organization of the token", async () => {
    const { admin, organizationId } = await server.otherOrganization();
    const { body: token } = await create({}, admin);

    const { agentId } = await enroll(token.token, "web9");

    expect((await events("agent.enroll")).at(-1)).to.deep.include({
      organization_id: organizationId,
      outcome: "success",
      actor_type: "anonymous",
      actor_id: null,
      resource_type: "agent",
      resource_id: agentId,
      resource_name: "web9",
    });
  });

  it("is recorded when it is denied: in the token's organization or, for no token, in the first one", async () => {
    const { admin, organizationId } = await server.otherOrganization();
    const { body: token } = await create({}, admin);
    await enroll(token.token);

    await refusalOf(enroll(token.token, "late"));
    await refusalOf(enroll("hfa_guess", "guessing"));

    const [late, guess] = (await events("agent.enroll")).slice(-2);
    const denied = { outcome: "denied", actor_type: "anonymous", reason: "AUTH_INVALID" };
    expect(late).to.deep.include({ ...denied, organization_id: organizationId, resource_name: "late" });
    const [first] = await server.sql("select id from organization where instance");
    expect(guess).to.deep.include({ ...denied, organization_id: first.id, resource_name: "guessing" });
  });

  it("logs neither the token nor what the agent gets for it", async () => {
    const { body: token } = await create();

    const { clientSecret } = await enroll(token.token);
    await refusalOf(enroll(token.token));

    expect(server.log).to.include('"method":"Enroll"');
    expect(server.log).not.to.include(token.token);
    expect(server.log).not.to.include(clientSecret);
  });
});

describe("Enrollment with a limit of calls", () => {
  const limited = useServer({ RATE_LIMIT_AUTH: "3" });

  it("counts as one of the ways in, for each address", async () => {
    const door = limited.anonymous.grpc(AgentLinkService);

    const refusals = [];
    for (let round = 0; round < 4; round += 1) refusals.push(await refusalOf(enroll("hfa_guess", "web1", door)));
    door.close();

    // The administrator of this server has logged in before.
    expect(refusals.map((refusal) => refusal.split(":")[0])).to.deep.equal([
      "AUTH_INVALID",
      "AUTH_INVALID",
      "RATE_LIMITED",
      "RATE_LIMITED",
    ]);
  });
});
