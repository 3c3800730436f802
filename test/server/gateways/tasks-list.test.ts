import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { purgeJob } from "../../../src/server/gateways/purge.ts";
import type { Client } from "../../harness/client.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { gatewaySecret, pair, rotate, timeOut } from "./rotations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const list = (gateway: { readonly id: string }, query = "", by = operator) =>
  by.rest("GET", `/api/v1/admin/gateways/${gateway.id}/tasks${query}`);

describe("The tasks of a gateway", () => {
  it("are a bare array of records, the newest first", async () => {
    const { environment, primary } = await pair(server);
    const first = await gatewaySecret(server, environment);
    const taskIds = [await rotate(operator, first), await rotate(operator, await gatewaySecret(server, environment))];

    const { status, body } = await list(primary);

    expect(status).to.equal(200);
    expect(body.map(({ id }: { id: string }) => id)).to.deep.equal(taskIds.toReversed());
    const { created_at, ...record } = body[1];
    expect(created_at).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(record).to.deep.equal({
      id: taskIds[0],
      gateway_id: primary.id,
      environment,
      type: "rotate_secret",
      status: "pending",
      config_id: first.configId,
      secret_id: first.id,
      attempt: 1,
      max_attempts: 3,
      retry_of: null,
      fencing_token: null,
      claimed_at: null,
      deadline_at: null,
      finished_at: null,
      error: null,
    });
  });

  it("are those of a status, where one is named", async () => {
    const { environment, primary } = await pair(server);
    const ids: Record<string, string> = {};
    for (const name of ["succeeded", "failed", "timed_out", "running"]) {
      await rotate(operator, await gatewaySecret(server, environment));
      const task = (await primary.claim()) as Assignment;
      ids[name] = task.taskId;
      if (name === "succeeded") await primary.complete(task);
      if (name === "failed") {
        await primary.complete(task, { case: "failed", value: { message: "no", permanent: true } });
      }
      if (name === "timed_out") await timeOut(server, task.taskId);
      if (name === "timed_out") await primary.claim().then((retry) => primary.complete(retry as Assignment));
    }
    const cancelled = await gatewaySecret(server, environment);
    ids.cancelled = await rotate(operator, cancelled);
    await server.admin.rest("DELETE", `/api/v1/secrets/${cancelled.id}`);
    await primary.claim();
    ids.pending = await rotate(operator, await gatewaySecret(server, environment));

    for (const [status, id] of Object.entries(ids)) {
      const { body } = await list(primary, `?status=${status}`);
      expect(body.map((task: { status: string }) => task.status)).to.satisfy((all: string[]) =>
        all.every((each) => each === status),
      );
      expect(body.map((task: { id: string }) => task.id)).to.include(id);
    }
    const { body: all } = await list(primary);
    expect(all).to.have.length(7);
  });

  it("are at most as many as asked for, and 100 unless asked", async () => {
    const { primary } = await pair(server);
    await server.sql(
      `insert into gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts,
         requested_by, status, finished_at)
       select organization_id, environment, id, 'verify_secret', gen_random_uuid(), gen_random_uuid(), 1, 'system',
         'succeeded', now() from gateway, generate_series(1, 600) where id = $1`,
      [primary.id],
    );

    const lengths = [];
    for (const query of ["", "?limit=1", "?limit=500&status=succeeded"]) {
      lengths.push((await list(primary, query)).body.length);
    }

    expect(lengths).to.deep.equal([100, 1, 500]);
  });

  it("are refused for what is no status, no limit, no gateway, or another organization's gateway", async () => {
    const { primary } = await pair(server);
    const { admin } = await server.otherOrganization();
    const editor = await server.as("editor", ["editor"]);
    const theirs = await TestGateway.register(server, { by: admin });
    const refusals: [string, Promise<{ status: number; body: { error: { code: string } } }>][] = [
      ["VALIDATION_ERROR", list(primary, "?status=done")],
      ["VALIDATION_ERROR", list(primary, "?limit=0")],
      ["VALIDATION_ERROR", list(primary, "?limit=501")],
      ["RESOURCE_NOT_FOUND", list({ id: randomUUID() })],
      ["RESOURCE_NOT_FOUND", list({ id: "no-uuid" })],
      ["RESOURCE_NOT_FOUND", list(theirs)],
      ["PERMISSION_DENIED", list(primary, "", editor)],
    ];

    const codes = await Promise.all(refusals.map(async ([, refused]) => (await refused).body.error?.code));
    expect(codes).to.deep.equal(refusals.map(([code]) => code));
  });

  it("of a retired gateway stay on record", async () => {
    const { environment, primary } = await pair(server);
    const taskId = await rotate(operator, await gatewaySecret(server, environment));
    await primary.complete((await primary.claim()) as Assignment);
    await operator.rest("POST", `/api/v1/admin/gateways/${primary.id}/deactivate`, {});
    await operator.rest("DELETE", `/api/v1/admin/gateways/${primary.id}`);

    const { status, body } = await list(primary);

    expect([status, body.map(({ id }: { id: string }) => id)]).to.deep.equal([200, [taskId]]);
  });
});

describe("The purge of tasks", () => {
  it("removes those that ended 90 days ago, and no others", async () => {
    const { primary } = await pair(server);
    const insert = async (status: string, days: number | null) => {
      const [{ id }] = await server.sql(
        `insert into gateway_task (organization_id, environment, gateway_id, type, config_id, secret_id, max_attempts,
           requested_by, status, created_at, finished_at)
         select organization_id, environment, id, 'rotate_secret', gen_random_uuid(), gen_random_uuid(), 3, 'system', $2,
           now() - interval '200 days', now() - make_interval(days => $3) from gateway where id = $1 returning id`,
        [primary.id, status, days],
      );
      return id as string;
    };
    for (const status of ["succeeded", "failed", "timed_out", "cancelled"]) await insert(status, 91);
    const kept = [await insert("succeeded", 89), await insert("pending", null), await insert("running", null)];

    await purgeJob(server.server.core).run({});

    const { body } = await list(primary);
    expect(body.map(({ id }: { id: string }) => id)).to.have.members(kept);
  });
});
