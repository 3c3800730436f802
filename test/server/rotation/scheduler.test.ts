import { randomUUID } from "node:crypto";
import { mock } from "node:test";
import { expect } from "chai";
import { beginDue } from "../../../src/server/rotation/begin-due.ts";
import { type DueRotation, takeDue } from "../../../src/server/rotation/due.ts";
import { until } from "../../faults/own-engines.ts";
import { FailoverPair } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { Receiver } from "../../harness/receiver.ts";
import { useServer } from "../../harness/server.ts";
import { isWaitedFor, withOpenTransaction } from "../gateways/open-transaction.ts";
import { timeOut } from "../gateways/rotations.ts";
import { byCommand, Configurations, pushTo } from "./configurations.ts";
import { lookAgain, makeDue, rotationCoreOf, rotationRounds } from "./rounds.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);

const dayMs = 86_400_000;
const read = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;
const versionOf = async (id: string): Promise<number> => (await read(id)).version;
const rounds = () => rotationRounds(server.server);
const newEnvironment = () => `environment-${randomUUID().slice(0, 8)}`;
const lookAt = async (id: string): Promise<string | null> =>
  (await server.sql("select rotation_due_at::text as at from secret where id = $1", [id]))[0].at;

/** A secret that is rotated by schedule, and whose time has come. */
async function due(fields: Record<string, unknown> = {}, secretFields: Record<string, unknown> = {}) {
  const made = await configurations.of({ enabled: true, interval: 5, ...fields }, secretFields);
  await makeDue(server, made.secret.id);
  return made;
}

/** Takes what is due as a replica does, and answers the secret's own turn. */
async function take(secretId: string): Promise<DueRotation> {
  const taken = await takeDue(server.server.core.db, 100);
  const found = taken.due.find((each) => each.secretId === secretId);
  if (found === undefined) throw new Error("it is not due");
  return found;
}

describe("A secret whose time has come", () => {
  it("is rotated by the system, and due again an interval later", async () => {
    const { secret } = await due();

    await rounds();

    const { value, version } = await read(secret.id);
    expect(version).to.equal(2);
    expect(value).to.match(/^[A-Za-z0-9]{32}$/);
    const { body: versions } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}/versions`);
    expect(versions.data[0]).to.include({ change_type: "rotation", created_by: "system", change_reason: "" });
    const config = await configurations.get(secret.id);
    expect(config).to.include({ last_status: "succeeded", consecutive_failures: 0 });
    expect(Date.parse(config.next_rotation) - Date.parse(config.last_rotated)).to.equal(5 * dayMs);
    const [{ isSame }] = await server.sql(
      `select rotation_due_at = next_rotation as "isSame" from secret where id = $1`,
      [secret.id],
    );
    expect(isSame).to.equal(true);
  });

  it("leaves the task and the audit event of what was done by nobody", async () => {
    const { secret, config } = await due();

    await rounds();

    const [task, ...others] = await configurations.tasks(config.id);
    expect(others).to.deep.equal([]);
    expect(task).to.include({ status: "succeeded", environment: null, gateway_id: null, attempt: 1 });
    const [event] = await server.sql(
      `select actor_type, actor_id, outcome, resource_name, project_id, details::json as details from audit_event
       where resource_id = $1 and action = 'secret.rotate'`,
      [secret.id],
    );
    expect(event).to.deep.include({
      actor_type: "system",
      actor_id: null,
      outcome: "success",
      resource_name: secret.key,
      project_id: server.projectId,
      details: { version: 2, config_id: config.id, task_id: task.id, requested_by: "system" },
    });
  });

  it("is rotated once: the next round finds nothing to do", async () => {
    const { secret } = await due();

    await rounds();
    await rounds();
    await lookAgain(server, secret.id);
    await rounds();

    expect(await versionOf(secret.id)).to.equal(2);
  });

  it("is rotated with its configuration of that time", async () => {
    const { secret } = await due({ provider_settings: { charset: "digits", length: 12 } });

    await rounds();

    expect((await read(secret.id)).value).to.match(/^[0-9]{12}$/);
  });

  it("is rotated once also by a replica whose clock is far behind: the database's counts", async () => {
    const { secret } = await due();

    mock.timers.enable({ apis: ["Date"], now: Date.now() - 40 * dayMs });
    try {
      await rounds();
      await rounds();
    } finally {
      mock.timers.reset();
    }

    expect(await versionOf(secret.id)).to.equal(2);
    const { next_rotation: next } = await configurations.get(secret.id);
    expect(Date.parse(next) - Date.now()).to.be.closeTo(5 * dayMs, 60_000);
  });

  it("is due an interval later by the database's clock also where a target has to be told", async () => {
    const hook = await Receiver.start();
    const { secret, config } = await due(pushTo(hook.url()));

    mock.timers.enable({ apis: ["Date"], now: Date.now() - 40 * dayMs });
    try {
      await rounds();
      await until(async () => {
        const [task] = await server.sql("select status from gateway_task where config_id = $1", [config.id]);
        return task?.status === "succeeded";
      });
    } finally {
      mock.timers.reset();
      await hook.stop();
    }

    const { next_rotation: next } = await configurations.get(secret.id);
    expect(Date.parse(next) - Date.now()).to.be.closeTo(5 * dayMs, 60_000);
  });

  it("is rotated by a replica that runs jobs, by itself, and by one that only serves the API never", async () => {
    const { secret } = await due();
    const untouched = await versionOf(secret.id);

    const replica = await server.startReplica({}, ["jobs"]);
    await until(async () => (await versionOf(secret.id)) === 2);
    const later = await due();
    await until(async () => (await versionOf(later.secret.id)) === 2);
    await replica.stop();
    const last = await due();
    await until(
      async () =>
        (
          await server.sql("select clock_timestamp() > $1::timestamptz + interval '3 seconds' as is", [
            last.config.updated_at,
          ])
        )[0].is,
    );

    expect(untouched).to.equal(1);
    expect(await versionOf(last.secret.id)).to.equal(1);
    await rounds();
  });

  it("is left alone while a call changes it, and keeps no other waiting", async () => {
    const [held, free] = [await due(), await due()];

    await withOpenTransaction(server, async (session) => {
      await session.query("select from secret where id = $1 for update", [held.secret.id]);
      await rounds();
      expect(await versionOf(free.secret.id)).to.equal(2);
      expect(await versionOf(held.secret.id)).to.equal(1);
    });
    await rounds();

    expect(await versionOf(held.secret.id)).to.equal(2);
  });

  it("is rotated although the replica that took it has died: another one takes it soon", async () => {
    const { secret } = await due();
    await take(secret.id);
    await rounds();
    const meanwhile = await versionOf(secret.id);

    const [{ seconds }] = await server.sql(
      "select extract(epoch from rotation_due_at - now())::float8 as seconds from secret where id = $1",
      [secret.id],
    );
    await lookAgain(server, secret.id);
    await rounds();

    expect(meanwhile).to.equal(1);
    expect(seconds).to.be.within(0, 10);
    expect(await versionOf(secret.id)).to.equal(2);
  });

  it("is not rotated by who took it once something else has happened to it", async () => {
    const operator = await server.as(`operator-${randomUUID()}`, ["gateway:admin"]);
    const events: [number, (id: string, configId: string) => Promise<unknown>][] = [
      [2, (_, configId) => configurations.execute(configId, operator)],
      [1, (id) => configurations.put(id, { enabled: false })],
      [1, (id) => configurations.put(id, { ...byCommand, gateway_environment: "elsewhere" })],
      [1, (id) => server.admin.rest("POST", `/api/v1/secrets/${id}/archive`)],
      [1, (id) => server.admin.rest("DELETE", `/api/v1/secrets/${id}/permanent`)],
      [1, (id) => server.sql("update secret set expires_at = now() where id = $1", [id])],
      [1, (id) => lookAgain(server, id).then(() => take(id))],
    ];
    for (const [version, event] of events) {
      const { secret, config } = await due();
      const taken = await take(secret.id);

      await event(secret.id, config.id);
      await beginDue(rotationCoreOf(server.server), taken);

      const [row] = await server.sql("select version from secret where id = $1", [secret.id]);
      if (row !== undefined) expect(row.version, String(event)).to.equal(version);
      const tasks = await server.sql("select from gateway_task where secret_id = $1", [secret.id]);
      expect(tasks, String(event)).to.have.length(version - 1);
    }
  });

  it("is rotated with what a call has just committed to it", async () => {
    const { secret } = await due();
    const taken = await take(secret.id);

    let beginning: Promise<void> | undefined;
    await withOpenTransaction(server, async (session) => {
      await session.query("select from secret where id = $1 for update", [secret.id]);
      beginning = beginDue(rotationCoreOf(server.server), taken);
      await isWaitedFor(session);
      await session.query(
        `insert into rotation_config (id, organization_id, secret_id, provider, provider_settings, gateway_environment)
         select rotation_config_id, organization_id, id, 'gateway', '{}', 'elsewhere' from secret where id = $1
         on conflict (id) do update set provider = 'gateway', gateway_environment = 'elsewhere'`,
        [secret.id],
      );
      await session.query("commit");
    });
    await beginning;

    expect(await versionOf(secret.id), "a gateway's secret, which only a gateway rotates").to.equal(1);
  });
});

describe("A secret whose time has not come", () => {
  it("is not rotated when rotation is enabled, nor when anything is changed that does not make it due", async () => {
    const { secret } = await configurations.of({ enabled: true });
    await lookAgain(server, secret.id);
    await rounds();
    await configurations.put(secret.id, { provider_settings: { length: 12 } });
    await lookAgain(server, secret.id);
    await rounds();

    expect(await read(secret.id)).to.include({ version: 1, value: "v1" });
    const [row] = await server.sql("select rotation_due_at = next_rotation as later from secret where id = $1", [
      secret.id,
    ]);
    expect(row.later, "it is looked at when it may be due").to.equal(true);
  });

  it("is not looked at any more once rotation is disabled", async () => {
    const { secret } = await due();
    await configurations.put(secret.id, { enabled: false });

    await rounds();

    expect(await versionOf(secret.id)).to.equal(1);
    expect(await lookAt(secret.id)).to.equal(null);
  });

  it("is one that is archived, deleted or expired, whenever it was due", async () => {
    const endings: ((id: string) => Promise<unknown>)[] = [
      (id) => server.admin.rest("POST", `/api/v1/secrets/${id}/archive`),
      (id) => server.admin.rest("DELETE", `/api/v1/secrets/${id}`),
      (id) => server.sql("update secret set expires_at = now() where id = $1", [id]),
    ];
    for (const end of endings) {
      const { secret } = await due();

      await end(secret.id);
      await rounds();

      const [row] = await server.sql("select version from secret where id = $1", [secret.id]);
      expect(row.version, String(end)).to.equal(1);
      await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/restore`);
      await rounds();
      const config = await configurations.get(secret.id);
      expect(await versionOf(secret.id), `${String(end)}, restored`).to.equal(1);
      expect(Date.parse(config.next_rotation) - Date.now()).to.be.closeTo(5 * dayMs, 60_000);
      await lookAgain(server, secret.id);
      await rounds();
      expect(await versionOf(secret.id)).to.equal(1);
      await makeDue(server, secret.id);
      await rounds();
      expect(await versionOf(secret.id), "an interval after that").to.equal(2);
    }
  });

  it("is rotated all the same where nobody knows what the target has, also when rotation is not enabled", async () => {
    const { secret, config } = await configurations.of(byCommand, { environment: newEnvironment() });
    await server.sql("update rotation_config set unresolved = true, last_status = 'failed' where id = $1", [config.id]);
    await lookAgain(server, secret.id);

    await rounds();

    const tasks = await configurations.tasks(config.id);
    expect(tasks.map(({ status }: { status: string }) => status)).to.deep.equal(["pending"]);
  });

  it("is not rotated where the doubt is about a target that its values are not brought to any more", async () => {
    const { secret, config } = await configurations.of({ provider_settings: { length: 12 } });
    await server.sql("update rotation_config set unresolved = true, last_status = 'failed' where id = $1", [config.id]);
    await lookAgain(server, secret.id);

    await rounds();

    expect(await versionOf(secret.id)).to.equal(1);
    expect(await lookAt(secret.id)).to.equal(null);
  });

  it("is rotated after a restore where nobody knows what the target has", async () => {
    const { secret, config } = await configurations.of(byCommand, { environment: newEnvironment() });
    await server.sql("update rotation_config set unresolved = true, last_status = 'failed' where id = $1", [config.id]);
    const queued = async () =>
      (await server.sql("select count(*)::int as count from gateway_task where config_id = $1", [config.id]))[0].count;
    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/archive`);
    await rounds();
    const whileArchived = await queued();

    await server.admin.rest("POST", `/api/v1/secrets/${secret.id}/restore`);
    await rounds();

    expect([whileArchived, await queued()]).to.deep.equal([0, 1]);
  });
});

describe("A secret that cannot be read", () => {
  it("has failed, keeps no other waiting, and is tried again after a while only", async () => {
    const broken = await due();
    const others = [await due(), await due(), await due()];
    await server.sql("update data_key set wrapped = $2 where record_id = $1", [broken.secret.id, Buffer.alloc(60)]);

    await rounds();
    await rounds();

    for (const { secret } of others) expect(await versionOf(secret.id)).to.equal(2);
    const config = await configurations.get(broken.secret.id);
    expect(config).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(config.last_error).to.include({ code: "invalid", message: "what it takes cannot be read" });
    expect(Date.parse((await lookAt(broken.secret.id)) ?? "") - Date.now()).to.be.within(50_000, 70_000);
    const failures = await server.sql("select from audit_event where action = 'rotation.failed' and resource_id = $1", [
      broken.secret.id,
    ]);
    expect(failures).to.have.length(1);
  });
});

describe("Secrets that are due by the hundred", () => {
  it("are all rotated once, by three replicas at the same time, and calls go on meanwhile", async function () {
    this.timeout(60_000);
    const count = 250;
    const replicas = [
      server.server,
      await server.startReplica({ DATABASE_POOL_SIZE: "2" }),
      await server.startReplica({ DATABASE_POOL_SIZE: "8" }),
    ];
    const ids: string[] = [];
    for (let index = 0; index < count; index += 1) ids.push((await server.secret({ rotation: { enabled: true } })).id);
    await makeDue(server, ...ids);

    const working = Promise.all(replicas.map(rotationRounds));
    const done = new AbortController();
    void working.then(() => done.abort());
    const reads: number[] = [];
    while (!done.signal.aborted)
      reads.push((await server.admin.rest("GET", `/api/v1/secrets/${ids[reads.length % count]}`)).status);
    await working;

    expect(new Set(reads)).to.deep.equal(new Set([200]));
    const versions = await server.sql("select version, count(*)::int from secret where id = any($1) group by version", [
      ids,
    ]);
    expect(versions).to.deep.equal([{ version: 2, count }]);
    const tasks = await server.sql(
      "select status, count(*)::int, count(distinct secret_id)::int as secrets from gateway_task where secret_id = any($1) group by status",
      [ids],
    );
    expect(tasks).to.deep.equal([{ status: "succeeded", count, secrets: count }]);
  });
});

describe("A secret that a gateway rotates, and whose time has come", () => {
  async function dueAtGateway() {
    const environment = newEnvironment();
    const gateway = await TestGateway.register(server, { environment });
    return { environment, gateway, ...(await due(byCommand, { environment })) };
  }

  it("is queued by the system for the gateway that is active, which is told at once", async () => {
    const { gateway, secret, config } = await dueAtGateway();
    const watch = gateway.watch();
    await watch.next();

    await rounds();
    const told = await watch.next();
    const assignment = await gateway.claim();

    expect(told?.kind).to.deep.include({ case: "tasksWaiting" });
    expect(assignment).to.include({ secretId: secret.id, previousValue: "v1", attempt: 1 });
    const [task] = await configurations.tasks(config.id);
    expect(task).to.include({ gateway_id: gateway.id, status: "running", attempt: 1, max_attempts: 3 });
    expect(await configurations.get(secret.id)).to.include({ last_status: "running" });
    await gateway.complete(assignment as NonNullable<typeof assignment>);
    const after = await configurations.get(secret.id);
    expect(Date.parse(after.next_rotation) - Date.parse(after.last_rotated)).to.equal(5 * dayMs);
    const { body: versions } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}/versions`);
    expect(versions.data[0]).to.include({ version: 2, created_by: "system" });
    watch.cancel();
  });

  it("is not queued again while its rotation has not ended, and not at the head of those that are due", async () => {
    const { gateway, secret, config } = await dueAtGateway();
    await rounds();
    await gateway.claim();
    await lookAgain(server, secret.id);

    await rounds();

    expect(await configurations.tasks(config.id)).to.have.length(1);
    const [{ minutes }] = await server.sql(
      "select extract(epoch from rotation_due_at - now())::float8 / 60 as minutes from secret where id = $1",
      [secret.id],
    );
    expect(minutes).to.be.within(4, 5);
  });

  it("waits while no gateway is active, is not doubled, and goes to the next one that becomes active", async () => {
    const environment = newEnvironment();
    const { secret, config } = await due(byCommand, { environment });
    await rounds();
    const waiting = await configurations.tasks(config.id);
    await lookAgain(server, secret.id);
    await rounds();

    const gateway = await TestGateway.register(server, { environment });
    const assignment = await gateway.claim();

    expect(waiting).to.have.length(1);
    expect(waiting[0]).to.include({ status: "pending", gateway_id: null });
    expect(await configurations.tasks(config.id)).to.have.length(1);
    expect(assignment?.taskId).to.equal(waiting[0].id);
  });

  it("is tried again by a new chain of attempts after the last one has failed, not before", async () => {
    const { gateway, secret, config } = await dueAtGateway();
    await rounds();
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const assignment = await gateway.claim();
      await timeOut(server, assignment?.taskId ?? "");
    }
    const failed = await configurations.get(secret.id);
    await server.sql("update secret set rotation_due_at = greatest(rotation_due_at, now() + interval '1 minute')");
    await rounds();
    const early = await configurations.tasks(config.id);

    await lookAgain(server, secret.id);
    await rounds();

    expect(failed).to.include({ last_status: "failed", consecutive_failures: 1 });
    expect(early).to.have.length(3);
    const [latest] = await configurations.tasks(config.id);
    expect(latest).to.include({ status: "pending", attempt: 1, retry_of: null });
    const assignment = await gateway.claim();
    await gateway.complete(assignment as NonNullable<typeof assignment>);
    expect(await configurations.get(secret.id)).to.include({ last_status: "succeeded", consecutive_failures: 0 });
  });

  it("is left to the next look while its environment is failed over, and keeps no other waiting", async () => {
    const { environment, gateway, secret } = await dueAtGateway();
    const free = await due();

    await withOpenTransaction(server, async (session) => {
      await session.query("select from environment_lock where environment = $1 for update", [environment]);
      await rounds();
      expect(await versionOf(free.secret.id)).to.equal(2);
      expect(await configurations.get(secret.id)).to.include({ last_status: "never" });
    });
    await lookAgain(server, secret.id);
    await rounds();

    expect(await gateway.claim()).to.include({ secretId: secret.id });
  });

  it("goes with its environment to the gateway that takes over, begun or not, and is not doubled", async () => {
    const pair = await FailoverPair.register(server, server.admin);
    const { environment } = pair;
    const [begun, waiting, later] = [
      await due(byCommand, { environment }),
      await configurations.of({ ...byCommand, enabled: true }, { environment }),
      await configurations.of({ ...byCommand, enabled: true }, { environment }),
    ];
    await rounds();
    await pair.primary.claim();
    await makeDue(server, waiting.secret.id);
    await rounds();

    await pair.fail(pair.primary);
    await makeDue(server, later.secret.id);
    await lookAgain(server, begun.secret.id, waiting.secret.id);
    await rounds();
    await pair.dr.heartbeat();
    await pair.activateDr();
    await pair.dr.heartbeat();
    await lookAgain(server, begun.secret.id, waiting.secret.id, later.secret.id);
    await rounds();

    const all = [begun, waiting, later];
    for (const _ of all) {
      const assignment = await pair.dr.claim();
      await pair.dr.complete(assignment as NonNullable<typeof assignment>);
    }
    expect(await pair.dr.claim()).to.equal(undefined);
    for (const { secret } of all) expect(await versionOf(secret.id)).to.equal(2);
    expect(await configurations.tasks(begun.config.id)).to.have.length(2);
    expect(await configurations.tasks(waiting.config.id)).to.have.length(1);
    expect(await configurations.tasks(later.config.id)).to.have.length(1);
  });
});
