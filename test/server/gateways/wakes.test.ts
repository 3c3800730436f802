import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import type { Assignment } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { gatewayTopic } from "../../../src/server/gateways/task-streams.ts";
import type { Server } from "../../../src/server/server.ts";
import { until } from "../../faults/own-engines.ts";
import { FailoverPair, monitorRound } from "../../harness/failover.ts";
import type { TestGateway } from "../../harness/gateway.ts";
import { useServer } from "../../harness/server.ts";
import { gatewaySecret, rotate, timeOut } from "./rotations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
let replica: Server;
before(async () => {
  replica = await server.startReplica();
});

/** Waits until another replica has heard all that was said before. */
async function quiet(): Promise<void> {
  const topic = randomUUID();
  const heard = Promise.withResolvers<void>();
  const stop = replica.core.wakes.on(topic, heard.resolve);
  await until(async () => {
    server.server.core.wakes.wake(topic);
    return Promise.race([heard.promise.then(() => true), sleep(1000, false)]);
  });
  stop();
}

/** Which of the gateways of a pair another replica hears of, as soon as it has heard of those that are expected. */
async function wokenBy(pair: FailoverPair, work: () => Promise<unknown>, expected: string[]): Promise<string[]> {
  const woken = new Set<string>();
  await quiet();
  const listen = (name: string, { id }: TestGateway) => replica.core.wakes.on(gatewayTopic(id), () => woken.add(name));
  const stops = [listen("primary", pair.primary), listen("dr", pair.dr)];
  await work();
  await until(async () => expected.every((name) => woken.has(name)));
  await quiet();
  for (const stop of stops) stop();
  return [...woken].sort();
}

const newPair = () => FailoverPair.register(server, server.admin);
const failed = { case: "failed" as const, value: { message: "no" } };

/** A rotation that the primary has claimed. */
async function claimed(pair: FailoverPair): Promise<Assignment> {
  await rotate(server.admin, await gatewaySecret(server, pair.environment));
  return (await pair.primary.claim()) as Assignment;
}

/** What happens to gateways, after which of them are told at once; `prepare` answers what happens. */
const happenings: [string, string[], (pair: FailoverPair) => Promise<() => Promise<unknown>>][] = [
  ["another process of it registers", ["primary"], async (pair) => () => pair.primary.restart()],
  [
    "another one takes its place",
    ["primary"],
    async (pair) => {
      await pair.fail(pair.primary);
      return () => pair.another("primary");
    },
  ],
  [
    "it was failed as a DR gateway and is back",
    ["dr"],
    async (pair) => {
      await pair.fail(pair.dr);
      return () => pair.dr.heartbeat();
    },
  ],
  [
    "its silence has lasted too long",
    ["primary"],
    async (pair) => async () => {
      await pair.primary.fallSilent();
      await monitorRound(server);
    },
  ],
  [
    "its environment is failed over",
    ["dr", "primary"],
    async (pair) => {
      await pair.fail(pair.primary);
      return () => pair.activateDr();
    },
  ],
  [
    "its environment returns to the primary",
    ["dr", "primary"],
    async (pair) => {
      await pair.failOver();
      await pair.primary.heartbeat();
      return () => pair.failback();
    },
  ],
  ["it is deactivated", ["primary"], async (pair) => () => pair.deactivate(pair.primary)],
  ["it is retired", ["dr"], async (pair) => () => pair.retire(pair.dr)],
  [
    "a task of its own is to be tried again",
    ["primary"],
    async (pair) => {
      const task = await claimed(pair);
      return () => pair.primary.complete(task, failed);
    },
  ],
  [
    "nobody has reported a task in time, which is to be tried again",
    ["primary"],
    async (pair) => {
      const { taskId } = await claimed(pair);
      return () => timeOut(server, taskId);
    },
  ],
];

describe("A gateway is woken, and no other one, when", () => {
  for (const [what, expected, prepare] of happenings) {
    it(what, async () => {
      const pair = await newPair();
      const happen = await prepare(pair);

      expect(await wokenBy(pair, happen, expected)).to.deep.equal(expected);
    });
  }
});
