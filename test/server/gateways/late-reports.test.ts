import { expect } from "chai";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { Client } from "../../harness/client.ts";
import type { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import {
  failOver,
  gatewaySecret,
  type Pair,
  pair,
  queueCheck,
  recorded,
  rotate,
  taskOf,
  timeOut,
  valueOf,
} from "./rotations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
let operator: Client;
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
});

const deactivate = (gateway: TestGateway) =>
  operator.rest("POST", `/api/v1/admin/gateways/${gateway.id}/deactivate`, {});

/** How a task ends before its gateway has reported, and how the report is refused. */
const ends: readonly [why: string, end: (made: Pair, task: Assignment) => Promise<unknown>, refusal: string][] = [
  [
    "its time was over",
    (_, { taskId }) => timeOut(server, taskId),
    "RESOURCE_CONFLICT: the task has ended: it is timed_out",
  ],
  [
    "another gateway has taken over",
    (made) => failOver(operator, made),
    "RESOURCE_CONFLICT: the task has ended: it is timed_out",
  ],
  [
    "its gateway was deactivated",
    ({ primary }) => deactivate(primary),
    "RESOURCE_CONFLICT: the task has ended: it is timed_out",
  ],
  [
    "its gateway is active again under another token",
    async (made) => {
      await failOver(operator, made);
      await operator.rest("POST", `/api/v1/admin/failover/${made.environment}/failback`, {});
    },
    "RESOURCE_CONFLICT: the task has ended: it is timed_out",
  ],
];

describe("A report that comes too late", () => {
  for (const [why, end, refusal] of ends) {
    it(`since ${why} is refused, recorded, and changes nothing`, async () => {
      const made = await pair(server);
      const { environment, primary } = made;
      const secret = await gatewaySecret(server, environment);
      const taskId = await rotate(operator, secret);
      const task = (await primary.claim()) as Assignment;
      await end(made, task);
      const before = await taskOf(operator, primary, taskId);

      const refusals = [
        await refusalOf(primary.complete(task)),
        await refusalOf(primary.complete(task, { case: "failed", value: { message: "late", permanent: true } })),
      ];

      expect(refusals).to.deep.equal([refusal, refusal]);
      expect(before?.status).to.equal("timed_out");
      expect(await taskOf(operator, primary, taskId)).to.deep.equal(before);
      expect(await valueOf(server, secret)).to.deep.equal({ value: "v1", version: 1 });
      const late = (await recorded(server, taskId)).filter(({ action }) => action === "task.late_report");
      expect(late.map(({ outcome, reason, details }) => [outcome, reason, details.reported])).to.deep.equal([
        ["failure", "RESOURCE_CONFLICT", "succeeded"],
        ["failure", "RESOURCE_CONFLICT", "failed"],
      ]);
      expect(await server.sql("select status from gateway_task where retry_of = $1", [taskId])).to.deep.equal([
        { status: "pending" },
      ]);
    });
  }

  it("from the process that another one has followed is refused and recorded, too", async () => {
    const { environment, primary } = await pair(server);
    const secret = await gatewaySecret(server, environment);
    const taskId = await rotate(operator, secret);
    const task = (await primary.claim()) as Assignment;
    const former = primary.at(server.url);
    await primary.restart();

    const byFormer = await refusalOf(former.complete(task));
    const byNew = await refusalOf(primary.complete(task));
    const again = (await primary.claim()) as Assignment;
    await primary.complete(again);

    expect(byFormer).to.equal("RESOURCE_CONFLICT: another instance of this gateway has registered");
    expect(byNew).to.equal("RESOURCE_CONFLICT: the task has ended: it is timed_out");
    expect(again).to.include({ attempt: 2, value: task.value });
    expect(await valueOf(server, secret)).to.deep.equal({ value: task.value, version: 2 });
    const actions = (await recorded(server, taskId)).map(({ action }) => action);
    expect(actions).to.deep.equal(["task.claim", "task.late_report", "task.late_report"]);
  });

  it("from a retired gateway is refused and recorded, too", async () => {
    const { environment, dr } = await pair(server);
    const check = await queueCheck(server, dr, await gatewaySecret(server, environment));
    const task = (await dr.claim()) as Assignment;
    await operator.rest("DELETE", `/api/v1/admin/gateways/${dr.id}`);

    const refusal = await refusalOf(dr.complete(task));

    expect(refusal).to.equal("RESOURCE_CONFLICT: the gateway has been replaced or removed");
    expect((await recorded(server, check)).at(-1)).to.include({ action: "task.late_report", outcome: "failure" });
  });

  it("of a check is refused to a gateway that is deactivated", async () => {
    const { environment, dr } = await pair(server);
    await queueCheck(server, dr, await gatewaySecret(server, environment));
    const task = (await dr.claim()) as Assignment;
    await deactivate(dr);

    expect(await refusalOf(dr.complete(task))).to.equal("RESOURCE_CONFLICT: stale fencing token");
  });

  it("is none while the task still runs, whatever the time", async () => {
    const { environment, primary } = await pair(server);
    const secret = await gatewaySecret(server, environment);

    // The monitor may come between the end of the time and the report.
    for (let answer = ""; answer !== "ok"; ) {
      await rotate(operator, secret);
      const task = (await primary.claim()) as Assignment;
      const end = "update gateway_task set deadline_at = now() - interval '1 second' where id = $1";
      await server.sql(end, [task.taskId]);
      answer = await refusalOf(primary.complete(task));
      if (answer !== "ok") await primary.claim().then((retry) => primary.complete(retry as Assignment));
    }

    expect((await valueOf(server, secret)).version).to.be.greaterThan(1);
  });
});
