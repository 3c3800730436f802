import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { RotationConfigService } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { until } from "../../faults/own-engines.ts";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import { withOpenTransaction } from "../gateways/open-transaction.ts";
import { byCommand, byWebhook, Configurations, pushTo } from "./configurations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
const rotate = configurations.rotate.bind(configurations);
const read = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;
const versionsOf = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}/versions`)).body.data;
const outcomeOf = ({ status, body }: { status: number; body: { error?: { code: string; message: string } } }) =>
  body.error === undefined ? `${status}` : `${status} ${body.error.code} ${body.error.message}`;

describe("RotateSecret of what touches nothing outside", () => {
  it("makes a new value, and answers the version, when that was, and when the next is due", async () => {
    const { secret } = await configurations.of({ enabled: true, interval: 10 });

    const { status, body } = await rotate(secret.id, { change_reason: "leaked on a screen" });

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("id", "version", "rotated_at", "next_rotation");
    expect(body).to.include({ id: secret.id, version: 2 });
    expect(Date.parse(body.next_rotation) - Date.parse(body.rotated_at)).to.equal(10 * 86_400_000);
    const [newest] = await versionsOf(secret.id);
    expect(newest).to.include({
      version: 2,
      created_at: body.rotated_at,
      change_type: "rotation",
      created_by: server.admin.id,
      change_reason: "leaked on a screen",
    });
    expect((await read(secret.id)).value).to.match(/^[A-Za-z0-9]{32}$/);
  });

  it("answers no next rotation while it is not enabled", async () => {
    const secret = await server.secret();

    const { body } = await rotate(secret.id);

    expect(body).to.include({ version: 2, next_rotation: null });
  });

  it("takes a value that is given", async () => {
    const secret = await server.secret();

    const { status, body } = await rotate(secret.id, { value: "chosen ☂", reason: "by hand" });

    expect([status, body.version]).to.deep.equal([200, 2]);
    expect(await read(secret.id)).to.include({ version: 2, value: "chosen ☂" });
    expect((await versionsOf(secret.id))[0]).to.include({ change_type: "rotation", change_reason: "by hand" });
  });

  it("is recorded as asked for, and as a new version", async () => {
    const secret = await server.secret();

    await rotate(secret.id, { reason: "because" });

    const [task] = await configurations.tasks((await configurations.get(secret.id)).id);
    const events = await server.sql(
      `select action, outcome, resource_type, project_id, reason, details from audit_event
       where resource_id = $1 and action like '%rotate' order by action`,
      [secret.id],
    );
    const about = { outcome: "success", resource_type: "secret", project_id: server.projectId, reason: "because" };
    const details = { config_id: task.config_id, task_id: task.id };
    expect(events.map(({ details, ...event }) => ({ ...event, details: JSON.parse(details) }))).to.deep.equal([
      { action: "rotation_config.rotate", ...about, details },
      { action: "secret.rotate", ...about, details: { version: 2, requested_by: server.admin.id, ...details } },
    ]);
  });

  it("marks the value before with the end of its grace period, and no other", async () => {
    const { secret, config } = await configurations.of({ grace_period_days: 7 });
    await rotate(secret.id);
    await configurations.put(secret.id, { grace_period_days: 0 });
    await rotate(secret.id);

    const rows = await server.sql(
      `select v.version, (extract(epoch from v.grace_ends_at - next.created_at) / 86400)::float8 as days
       from secret_version v left join secret_version next on next.secret_id = v.secret_id and next.version = v.version + 1
       where v.secret_id = $1 order by 1`,
      [secret.id],
    );

    expect(config.grace_period_days).to.equal(7);
    expect((await configurations.get(secret.id)).grace_period_days).to.equal(0);
    expect(rows.map(({ version, days }) => [version, days])).to.deep.equal([
      [1, 7],
      [2, 0],
      [3, null],
    ]);
  });

  it("does it once for an Idempotency-Key that comes twice, and answers the same", async () => {
    const secret = await server.secret();
    const once = () =>
      server.admin.rest("POST", `/api/v1/secrets/${secret.id}/rotate`, {}, { "idempotency-key": secret.id });

    const [first, second] = [await once(), await once()];

    expect(second.body).to.deep.equal(first.body);
    expect((await read(secret.id)).version).to.equal(2);
  });

  it("lets one of two at the same time do it, and tells the other that one is running", async () => {
    const secret = await server.secret();
    const answers = await withOpenTransaction(server, async (session) => {
      await session.query("select from secret where id = $1 for update", [secret.id]);
      const both = [rotate(secret.id), rotate(secret.id)];
      await until(async () => {
        const waiting = await server.sql(
          `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        );
        return waiting.length === 2;
      });
      await session.query("rollback");
      return Promise.all(both);
    });

    expect(answers.map(outcomeOf)).to.have.members([
      "200",
      "409 RESOURCE_CONFLICT another rotation of this secret is running",
    ]);
    expect((await read(secret.id)).version).to.equal(2);
  });
});

describe("RotateSecret", () => {
  it("refuses a value where a target has to be told, and rotates nothing", async () => {
    for (const fields of [pushTo("https://rotate.example.com/hook"), byCommand, byWebhook({ mode: "mint" })]) {
      const { secret, config } = await configurations.of(fields, { environment: "production" });

      const { status, body } = await rotate(secret.id, { value: "chosen" });

      expect([status, body.error.code, body.error.details[0].field]).to.deep.equal([400, "VALIDATION_ERROR", "value"]);
      expect(await configurations.tasks(config.id)).to.deep.equal([]);
    }
  });

  it("refuses a value of more than 64 KiB, and a reason of more than 1000 characters", async () => {
    const { id } = await server.secret();

    const long = await rotate(id, { value: "v".repeat(65_537) });
    const wordy = await rotate(id, { reason: "r".repeat(1001) });

    expect([long, wordy].map(({ status, body }) => [status, body.error.details[0].field])).to.deep.equal([
      [400, "value"],
      [400, "change_reason"],
    ]);
  });

  it("refuses an expected version that is not the current one, in the body or in If-Match", async () => {
    const { secret, config } = await configurations.of(byCommand, { environment: "production" });
    const path = `/api/v1/secrets/${secret.id}/rotate`;

    const refused = [
      await rotate(secret.id, { expected_version: 2 }),
      await rotate(secret.id, { cas: 2 }),
      await server.admin.rest("POST", path, {}, { "if-match": '"2"' }),
    ];

    for (const { status, body } of refused) {
      expect([status, body.error.code, body.error.message]).to.deep.equal([
        409,
        "RESOURCE_CONFLICT",
        "the current version is 1",
      ]);
    }
    expect(await configurations.tasks(config.id)).to.deep.equal([]);
    expect(await configurations.get(secret.id)).to.include({ last_status: "never" });
    const other = await server.secret();
    expect((await rotate(other.id, { expected_version: 1 })).status).to.equal(200);
    const again = await server.admin.rest("POST", `/api/v1/secrets/${other.id}/rotate`, {}, { "if-match": '"2"' });
    expect([again.status, again.body.version]).to.deep.equal([200, 3]);
  });

  it("answers 404 for what is not there, not active, or another organization's", async () => {
    const [archived, deleted, expired, ours] = await Promise.all([0, 1, 2, 3].map(() => server.secret()));
    await server.admin.rest("POST", `/api/v1/secrets/${archived.id}/archive`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${deleted.id}`);
    await server.sql("update secret set expires_at = now() where id = $1", [expired.id]);
    const { admin: foreign } = await server.otherOrganization();

    const answers = [
      ...(await Promise.all([archived, deleted, expired].map(({ id }) => rotate(id)))),
      await rotate("0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"),
      await rotate("nonsense"),
      await rotate(ours.id, {}, foreign),
    ];

    expect(answers.map(({ status, body }) => `${status} ${body.error.code}`)).to.deep.equal(
      Array(6).fill("404 RESOURCE_NOT_FOUND"),
    );
    expect((await read(ours.id)).version).to.equal(1);
  });

  it("takes rotation:execute, at the organization or at the secret's project", async () => {
    await server.admin.rest("POST", "/api/v1/roles", { name: "rotator", permissions: ["rotation:execute"] });
    const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: "another" });
    const secret = await server.secret();
    const callers = [
      await server.as("rotates-all", ["rotator"]),
      await server.as("rotates-here", { projectRoles: [{ project_id: server.projectId, role: "rotator" }] }),
      await server.as("rotates-elsewhere", { projectRoles: [{ project_id: other.id, role: "rotator" }] }),
      await server.as("only-views", ["viewer"]),
      await server.as("only-operates", ["gateway:admin"]),
    ];

    const statuses = [];
    for (const caller of callers) statuses.push((await rotate(secret.id, {}, caller)).status);

    expect(statuses).to.deep.equal([200, 200, 403, 403, 403]);
    expect((await server.auditTrail()).slice(-3)).to.deep.equal([
      "rotates-elsewhere rotation_config.rotate denied",
      "only-views rotation_config.rotate denied",
      "only-operates rotation_config.rotate denied",
    ]);
  });

  it("does nothing past the end of the license", async () => {
    const replica = await server.startReplica({ LICENSE_EXPIRES_AT: "2020-01-01T00:00:00Z" });
    const { secret, config } = await configurations.of(pushTo("http://127.0.0.1:9/hook"));
    const late = new Client(urlOf(replica), server.admin.token);

    const { status, body } = await rotate(secret.id, {}, late);

    expect([status, body.error.code]).to.deep.equal([403, "LICENSE_EXPIRED"]);
    expect(await configurations.tasks(config.id)).to.deep.equal([]);
  });

  it("is the same over gRPC", async () => {
    const { secret } = await configurations.of({ enabled: true });
    const { config: pushing } = await configurations.of(pushTo("https://rotate.example.com/hook"));
    const grpc = server.admin.grpc(RotationConfigService);
    const call = (request: Record<string, unknown>) => grpc.rotateSecret(request, server.admin.metadata());

    const { id, version, taskId, rotatedAt, nextRotation } = await call({
      id: secret.id,
      value: "chosen",
      expectedVersion: 1,
    });
    const stale = await refusalOf(call({ id: secret.id, expectedVersion: 1 }));
    const given = await refusalOf(call({ id: pushing.secret_id, value: "chosen" }));
    grpc.close();

    expect([id, version, taskId]).to.deep.equal([secret.id, 2, undefined]);
    expect(timestampDate(nextRotation as Timestamp)).to.be.above(timestampDate(rotatedAt as Timestamp));
    expect((await read(secret.id)).value).to.equal("chosen");
    expect(stale).to.equal("RESOURCE_CONFLICT: the current version is 2");
    expect(given).to.match(/^VALIDATION_ERROR/);
  });
});
