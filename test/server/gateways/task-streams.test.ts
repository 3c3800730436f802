import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import type { Notice } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import type { Server } from "../../../src/server/server.ts";
import { until } from "../../faults/own-engines.ts";
import type { Client } from "../../harness/client.ts";
import { TestGateway } from "../../harness/gateway.ts";
import type { Watch } from "../../harness/host.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "../agents/refusal.ts";
import { failOver, gatewaySecret, type Pair, pair, queueSilently, rotate } from "./rotations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
let operator: Client;
let replica: Server;
const opened: TestGateway[] = [];
before(async () => {
  operator = await server.as("operator", ["gateway:admin"]);
  replica = await server.startReplica();
});
afterEach(() => opened.splice(0).forEach((gateway) => gateway.close()));

async function newPair(): Promise<Pair> {
  const made = await pair(server);
  opened.push(made.primary, made.dr);
  return made;
}

/** A stream that is up, and how it said that the gateway stands. */
async function watching(gateway: TestGateway) {
  const watch = gateway.watch();
  opened.push(gateway);
  return { watch, standing: await nextStanding(watch) };
}

/** How the next message says that the gateway stands. */
async function nextStanding(watch: Watch<Notice>) {
  const notice = await watch.next();
  if (notice?.kind.case !== "standing") throw new Error(`no standing but ${notice?.kind.case}`);
  const { activationStatus, fencingToken, standDown, leaseSeconds, heartbeatIntervalSeconds } = notice.kind.value;
  return { activationStatus, fencingToken, standDown, leaseSeconds, heartbeatIntervalSeconds };
}

/** How many tasks wait, as the next message says. */
async function nextCount(watch: Watch<Notice>): Promise<number> {
  const notice = await watch.next();
  if (notice?.kind.case !== "tasksWaiting") throw new Error(`no tasks but ${notice?.kind.case}`);
  return notice.kind.value.count;
}

/** Tasks that no replica says anything of; their ids. */
async function queue(
  gateway: TestGateway,
  type: "rotate_secret" | "verify_secret" = "rotate_secret",
  count = 1,
): Promise<string[]> {
  const secrets = await Promise.all(Array.from({ length: count }, () => gatewaySecret(server, gateway.environment)));
  return Promise.all(secrets.map((secret) => queueSilently(server, gateway, secret, type)));
}

const deactivate = (gateway: TestGateway) =>
  operator.rest("POST", `/api/v1/admin/gateways/${gateway.id}/deactivate`, {});
const ending = (watch: Watch<Notice>) => refusalOf(watch.next().then((message) => expect(message).to.equal(undefined)));

/** Which gateways a replica asks the database for, statement by statement. */
function looksOf({ core }: Server) {
  const { pool } = core.db;
  const query = pool.query.bind(pool) as (...args: unknown[]) => unknown;
  const asked: string[][] = [];
  pool.query = ((text: string, values: unknown[]) => {
    if (text.includes("as subjects") && text.includes("gateway_task")) asked.push(values[0] as string[]);
    return query(text, values);
  }) as typeof pool.query;
  const stop = () => {
    pool.query = query as typeof pool.query;
  };
  return { asked, stop };
}

describe("A stream of tasks", () => {
  it("begins with how the gateway stands", async () => {
    const { primary, dr } = await newPair();

    const { standing: ofPrimary } = await watching(primary);
    const { standing: ofDr } = await watching(dr);

    const times = { leaseSeconds: 120, heartbeatIntervalSeconds: 30, standDown: false };
    expect(ofPrimary).to.include({ ...times, activationStatus: "active", fencingToken: primary.token });
    expect(ofPrimary.fencingToken).to.match(/^\d{19}$/);
    expect(ofDr).to.include({ ...times, activationStatus: "standby", fencingToken: undefined });
  });

  it("says how many tasks wait from before it was open", async () => {
    const { primary } = await newPair();
    await queue(primary, "rotate_secret", 3);

    const { watch } = await watching(primary);

    expect(await nextCount(watch)).to.equal(3);
  });

  it("says that there are new tasks, although nobody says that there is news", async () => {
    const { primary, dr } = await newPair();
    const { watch: ofPrimary } = await watching(primary);
    const { watch: ofDr } = await watching(dr);

    await queue(primary);
    await queue(dr, "verify_secret", 2);
    const first = [await nextCount(ofPrimary), await nextCount(ofDr)];
    await queue(primary);
    const second = await nextCount(ofPrimary);

    expect([...first, second]).to.deep.equal([1, 2, 2]);
  });

  it("says nothing of tasks that the gateway may not claim", async () => {
    const { primary, dr } = await newPair();
    const other = await newPair();
    const { watch: ofPrimary } = await watching(primary);
    const { watch: ofDr } = await watching(dr);

    await queue(other.primary);
    await queue(primary, "verify_secret");
    await queue(dr, "rotate_secret", 7);
    await sleep(2500);
    await queue(primary, "rotate_secret", 2);
    await queue(dr, "verify_secret", 3);

    expect(await nextCount(ofPrimary)).to.equal(2);
    expect(await nextCount(ofDr)).to.equal(3);
  });

  it("says it again, now and then, while tasks lie, and no more once they are claimed", async () => {
    const [{ primary: idle }, { primary: busy }] = [await newPair(), await newPair()];
    await queue(idle);
    const [claimed] = await queue(busy);
    const { watch: ofIdle } = await watching(idle);
    const { watch: ofBusy } = await watching(busy);
    await Promise.all([nextCount(ofIdle), nextCount(ofBusy)]);
    const said: string[] = [];
    const listen = async (who: string, watch: Watch<Notice>) => {
      for await (const { kind } of watch) said.push(`${who}: ${kind.case}`);
    };
    void listen("idle", ofIdle).catch(() => {});
    void listen("busy", ofBusy).catch(() => {});

    await server.sql("update gateway_task set status = 'running' where id = $1", [claimed]);
    await until(() => said.length > 0, 15_000);
    await sleep(2500);

    expect(said).to.deep.equal(["idle: tasksWaiting"]);
  });

  it("says at once on every replica how a failover changes what its gateway is to do", async () => {
    for (const url of [server.url, urlOf(replica)]) {
      const made = await newPair();
      const { watch: ofPrimary } = await watching(made.primary.at(url));
      const { watch: ofDr } = await watching(made.dr.at(url));
      await queue(made.primary);
      await nextCount(ofPrimary);

      await failOver(operator, made);

      expect(await nextStanding(ofPrimary)).to.include({ activationStatus: "failed", standDown: true });
      const active = await nextStanding(ofDr);
      expect(active).to.include({ activationStatus: "active", standDown: false });
      expect(active.fencingToken).to.equal(made.dr.token);
      expect(await nextCount(ofDr)).to.equal(1);
    }
  });

  it("says that its gateway is to stand down", async () => {
    const { dr } = await newPair();
    await queue(dr, "verify_secret");
    const { watch } = await watching(dr);
    await nextCount(watch);

    await deactivate(dr);

    expect(await nextStanding(watch)).to.include({ activationStatus: "standby", standDown: true });
  });

  it("ends when another instance of its gateway registers, and the other one's begins", async () => {
    const { primary } = await newPair();
    const { watch } = await watching(primary.at(urlOf(replica)));
    const former = primary.token;

    await primary.restart();

    expect(await ending(watch)).to.equal("RESOURCE_CONFLICT: another instance of this gateway has registered");
    const { standing } = await watching(primary);
    expect(standing.fencingToken).to.equal(primary.token).and.not.equal(former);
  });

  it("ends when its gateway is retired", async () => {
    const { dr } = await newPair();
    const { watch } = await watching(dr);

    await operator.rest("DELETE", `/api/v1/admin/gateways/${dr.id}`);

    expect(await ending(watch)).to.equal("RESOURCE_CONFLICT: the gateway has been replaced or removed");
  });

  it("ends when its identity is disabled, deleted, or no gateway any more", async () => {
    const path = "/api/v1/machine-identities";
    const acts: [string, (id: string) => Promise<unknown>][] = [
      ["AUTH_INVALID: the token is invalid", (id) => server.admin.rest("POST", `${path}/${id}/disable`)],
      ["AUTH_INVALID: the token is invalid", (id) => server.admin.rest("DELETE", `${path}/${id}`)],
      [
        "PERMISSION_DENIED: permission gateway:connect is required",
        (id) => server.admin.rest("PUT", `${path}/${id}`, { roles: ["viewer"] }),
      ],
    ];
    const endings = acts.map(async ([refusal, act]) => {
      const gateway = await TestGateway.register(server);
      const { watch } = await watching(gateway);

      await act(gateway.client.id);

      expect(await ending(watch)).to.equal(refusal);
    });
    await Promise.all(endings);
  });

  it("is refused to another instance, for another identity's gateway, and for one that never was", async () => {
    const { primary, dr } = await newPair();
    const link = primary.link;
    const watch = (gatewayId: string, instanceId = primary.instanceId) => {
      const stream = link.watchTasks({ gatewayId, instanceId }, primary.client.metadata());
      return refusalOf(new Promise((resolve, reject) => stream.on("data", resolve).on("error", reject)));
    };

    expect(await watch(primary.id, randomUUID())).to.equal(
      "RESOURCE_CONFLICT: another instance of this gateway has registered",
    );
    expect(await watch(dr.id, dr.instanceId)).to.equal("RESOURCE_NOT_FOUND: gateway not found");
    expect(await watch(randomUUID())).to.equal("RESOURCE_NOT_FOUND: gateway not found");
  });

  it("costs no statement of its own while nothing happens", async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => TestGateway.register(server)));
    await Promise.all(made.map((gateway) => watching(gateway)));
    const looks = looksOf(server.server);
    await until(() => looks.asked.some((gateways) => gateways.length === 20));
    looks.asked.length = 0;

    await until(() => looks.asked.length >= 3);
    looks.stop();

    const ids = made.map(({ id }) => id);
    for (const gateways of looks.asked) expect(gateways).to.have.members(ids);
  });

  it("is looked after at once when a task is queued on another replica, and no other stream with it", async () => {
    const [{ environment, primary }, other] = [await newPair(), await newPair()];
    for (const gateway of [primary, other.primary]) await watching(gateway.at(urlOf(replica)));
    const secrets = await Promise.all(Array.from({ length: 5 }, () => gatewaySecret(server, environment)));
    const looks = looksOf(replica);

    // A hint that comes while all are asked for is answered with them.
    for (const secret of secrets) await rotate(operator, secret);
    await until(() => looks.asked.some((gateways) => gateways.length === 1));
    looks.stop();

    expect(looks.asked).to.deep.include([primary.id]);
  });

  it("goes on when the database was away for a while", async () => {
    const { environment, primary } = await newPair();
    const secret = await gatewaySecret(server, environment);
    const { watch } = await watching(primary);
    await server.sql(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`);

    await queueSilently(server, primary, secret, "rotate_secret");

    expect(await nextCount(watch)).to.equal(1);
  });

  it("ends with the server, so that the gateway goes elsewhere", async () => {
    const stopping = await server.startReplica();
    const { primary } = await newPair();
    const { watch } = await watching(primary.at(urlOf(stopping)));

    const stopped = stopping.stop(60_000);

    expect(await watch.next()).to.equal(undefined);
    await stopped;
  });
});
