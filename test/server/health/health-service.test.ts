import { expect } from "chai";
import { HealthService } from "../../../gen/ts/holdfast/health/v1/health_service_pb.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ RATE_LIMIT_API: "15" });

describe("GET /api/v1/health", () => {
  it("answers 200 with exactly the basic record while all is well, to anybody", async () => {
    const { status, body } = await server.anonymous.rest("GET", "/api/v1/health");

    expect(status).to.equal(200);
    const components = { database: "healthy", redis: "healthy", ocsp: "healthy" };
    expect(body).to.deep.equal({ status: "healthy", version: body.version, components });
  });

  it("says a semantic version of at least 1.1.0", async () => {
    const { body } = await server.anonymous.rest("GET", "/api/v1/health");

    const [, major, minor] = /^(\d+)\.(\d+)\.(\d+)(?:[-+].*)?$/.exec(body.version) ?? [];
    expect(Number(major) * 1000 + Number(minor)).to.be.at.least(1001);
  });

  it("is not limited, carries no limit headers, and does not mind a bad token", async () => {
    for (let count = 0; count < 20; count += 1) {
      const { status, headers } = await server.anonymous.rest("GET", "/api/v1/health", undefined, {
        authorization: "Bearer nonsense",
      });
      expect(status).to.equal(200);
      expect([...headers.keys()].filter((name) => name.startsWith("x-ratelimit"))).to.deep.equal([]);
    }
  });

  it("asks its components at most once a second, whoever asks", async () => {
    const { db } = server.server.core;
    const query = db.query.bind(db);
    await new Promise((resolve) => setTimeout(resolve, 1050));
    let checks = 0;
    db.query = (text, values) => {
      checks += 1;
      return query(text, values);
    };
    const start = Date.now();

    await Promise.all(Array.from({ length: 30 }, () => server.anonymous.rest("GET", "/api/v1/health")));
    db.query = query;

    // One check for the component, and one that the responder makes for its own.
    expect(checks).to.be.at.most(2 * (1 + Math.ceil((Date.now() - start) / 1000)));
    expect(checks).to.be.at.least(1);
  });
});

describe("GET /api/v1/health/database", () => {
  it("answers 200 with exactly the database record, to anybody", async () => {
    const { status, body } = await server.anonymous.rest("GET", "/api/v1/health/database");

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("status", "latency_ms", "connections");
    expect(body.status).to.equal("healthy");
    expect(body.latency_ms).to.be.a("number").that.is.at.least(0);
    expect(Number.isInteger(body.latency_ms)).to.equal(true);
    expect(body.connections).to.have.all.keys("active", "idle", "max");
    for (const number of Object.values(body.connections)) expect(Number.isInteger(number)).to.equal(true);
    expect(body.connections.max).to.equal(server.server.core.config.DATABASE_POOL_SIZE);
    expect(body.connections.active + body.connections.idle).to.be.within(1, body.connections.max);
  });
});

describe("GET /api/v1/health/system", () => {
  it("answers 200 with exactly the system record to one who holds system:read", async () => {
    const { status, headers, body } = await server.admin.rest("GET", "/api/v1/health/system");

    expect(status).to.equal(200);
    expect(headers.get("x-ratelimit-limit")).to.equal(null);
    expect(body).to.have.all.keys("status", "version", "uptime_seconds", "components", "statistics");
    expect(body.components).to.have.all.keys("database", "redis", "ocsp", "license");
    for (const name of ["database", "redis", "ocsp"]) {
      expect(body.components[name]).to.have.all.keys("status", "latency_ms");
      expect(body.components[name].status).to.equal("healthy");
    }
    const license = { status: "valid", expires_at: "2099-12-31T23:59:59.000Z", tier: "community" };
    expect(body.components.license).to.deep.equal(license);
    expect(body.statistics).to.have.all.keys("total_secrets", "total_certificates", "active_agents", "active_users");
    expect(Number.isInteger(body.uptime_seconds)).to.equal(true);
  });

  it("counts the active secrets and the users of the last 30 days, of the whole installation", async () => {
    await server.user("recent");
    await server.user("long-ago");
    await server.sql(
      "update user_account set last_authenticated_at = now() - interval '31 days' where username = 'long-ago'",
    );
    const other = await server.otherOrganization();
    const project_id = other.projectId;
    const [{ id: archived }, { id: deleted }] = [
      await server.secret({ project_id }, other.admin),
      await server.secret({ project_id }, other.admin),
    ];
    await server.secret({ project_id }, other.admin);
    await server.sql("update secret set status = 'archived' where id = $1", [archived]);
    await server.sql("update secret set status = 'deleted' where id = $1", [deleted]);
    const [{ active }] = await server.sql("select count(*)::int as active from secret where status = 'active'");

    const { body } = await server.admin.rest("GET", "/api/v1/health/system");

    expect(active).to.equal(1);
    expect(body.statistics).to.deep.equal({
      total_secrets: 1,
      total_certificates: 0,
      active_agents: 0,
      active_users: 1,
    });
  });

  it("is 401 without a token, 403 without system:read, and both are never limited", async () => {
    const editor = await server.as("editor", { roles: ["editor"], rateLimitPerMinute: 1 });
    for (let count = 0; count < 10; count += 1) {
      const anonymous = await server.anonymous.rest("GET", "/api/v1/health/system");
      const refused = await editor.rest("GET", "/api/v1/health/system");

      expect([anonymous.status, anonymous.body.error.code]).to.deep.equal([401, "AUTH_REQUIRED"]);
      expect([refused.status, refused.body.error.code]).to.deep.equal([403, "PERMISSION_DENIED"]);
    }
  });

  it("says over gRPC what REST says", async () => {
    const client = server.admin.grpc(HealthService);

    const basic = await client.getHealth({});
    const system = await client.getSystemHealth({}, server.admin.metadata());
    client.close();

    expect(basic.status).to.equal("healthy");
    expect(system.components?.license).to.include({ status: "valid", tier: "community" });
  });
});
