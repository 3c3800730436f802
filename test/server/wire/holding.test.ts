import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Redis } from "ioredis";
import { Locks } from "../../../src/server/lock/lock.ts";
import { holding } from "../../../src/server/wire/holding.ts";
import { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { type Orders, useOrders } from "./orders.ts";

const server = useServer();
const shortLeaseMs = 600;

/** Locks of a replica of its own, for the tests of this file. */
function useLocks(urls: () => string[], leaseMs?: number): () => Locks {
  let locks: Locks;
  before(() => {
    locks = new Locks(urls(), leaseMs);
  });
  after(() => locks.close());
  return () => locks;
}

const here = useOrders(server);
const there = useOrders(
  server,
  useLocks(() => [server.valkey.url]),
);
const hasty = useOrders(
  server,
  useLocks(() => [server.valkey.url], shortLeaseMs),
);
const withoutRedis = useOrders(
  server,
  useLocks(() => [join(tmpdir(), `${randomUUID()}.sock`)]),
);

const place = (name: string, headers: Record<string, string> = {}, at = here, by = at.client()) =>
  by.rest("POST", "/api/v1/orders", { name }, headers);
const placed = async (name: string) => (await here.names()).filter((each) => each === name).length;
const outcomes = async (requestId: string) => {
  const rows = await server.sql("select action, outcome, reason from audit_event where request_id = $1", [requestId]);
  return rows.map(({ action, outcome, reason }) => [action, outcome, reason]);
};
const refusal = { code: "RESOURCE_CONFLICT", message: "another order of this name is being placed" };

/** Places an order and answers when it is under way, with how to let it go on and what comes of it. */
async function begin(name: string, at: Orders = here, headers: Record<string, string> = {}, by = at.client()) {
  const started = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  at.meanwhile = () => {
    started.resolve();
    return goOn.promise;
  };
  const answer = place(name, headers, at, by);
  await Promise.race([started.promise, answer]);
  at.meanwhile = async () => {};
  return { answer, goOn: goOn.resolve };
}

describe("A method that excludes others", () => {
  // What the first call compiles is no part of what several at once meet.
  before(() => Promise.all([place("first"), place("first-there", {}, there)]));
  afterEach(() => {
    for (const orders of [here, there, hasty, withoutRedis]) orders.meanwhile = async () => {};
  });

  it("runs once of twenty calls at once on two replicas, and tells the others why not", async () => {
    const goOn = Promise.withResolvers<void>();
    const refused: unknown[] = [];
    for (const orders of [here, there]) orders.meanwhile = () => goOn.promise;

    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        const answer = await place("popular", {}, at % 2 === 0 ? here : there);
        // The one that runs waits until all others have been answered.
        if (answer.status !== 201 && refused.push(answer.body.error) === 19) goOn.resolve();
        return answer;
      }),
    );

    expect(answers.filter(({ status }) => status === 201)).to.have.length(1);
    expect(refused).to.have.length(19);
    for (const error of refused) expect(error).to.include(refusal);
    expect(await placed("popular")).to.equal(1);
  });

  it("refuses the others over every door, and records each", async () => {
    const first = await begin("contested");
    const overRest = await place("contested", { "x-request-id": "contested" }, there);
    const grpc = there.client().grpc(there.descriptor);
    const { placeOrder } = grpc as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    const overGrpc = await placeOrder?.({ name: "contested" }, there.client().metadata()).catch((error) => error);
    grpc.close();
    first.goOn();

    expect(overRest.body.error).to.include(refusal);
    expect(overGrpc).to.include({ code: 10, details: refusal.message });
    expect((await first.answer).status).to.equal(201);
    expect(await outcomes("contested")).to.deep.equal([["order.place", "failure", "RESOURCE_CONFLICT"]]);
  });

  it("refuses nobody who is about something else", async () => {
    const first = await begin("mine");
    const other = await place("yours", {}, there);
    first.goOn();

    expect([other.status, (await first.answer).status]).to.deep.equal([201, 201]);
  });

  it("has committed what it did when the next one may run", async () => {
    const first = await begin("in-turn");
    first.goOn();
    await first.answer;

    const next = await place("in-turn", {}, there);

    expect(next.status).to.equal(201);
    expect(await placed("in-turn")).to.equal(2);
  });

  for (const [how, name, client, status] of [
    ["crashes", "failing", () => there.client(), 500],
    ["is refused by the method itself", "elsewhere", () => there.client(server.admin.id), 403],
  ] as const) {
    it(`lets the next one in after one that ${how}`, async () => {
      const first = await begin(name, there, {}, client());
      const meanwhile = await place(name, {}, here);
      first.goOn();
      const answer = await first.answer;

      const next = await place(name, {}, there, client());

      expect([meanwhile.status, answer.status, next.status]).to.deep.equal([409, status, status]);
    });
  }

  it("asks first who calls, whether they may, and for what: whoever is refused that learns nothing of others", async () => {
    const first = await begin("taken");
    const anonymous = await place("taken", {}, there, new Client(there.client().url, undefined));
    const unprivileged = await place("taken", {}, there, there.client("nowhere"));
    const invalid = await place("", {}, there);
    first.goOn();

    expect([anonymous.status, unprivileged.status, invalid.status]).to.deep.equal([401, 403, 400]);
    expect((await first.answer).status).to.equal(201);
  });

  it("is not run again for an outcome that is replayed, and of two under one Idempotency-Key the second is refused", async () => {
    const key = { "idempotency-key": "once" };
    const first = await begin("replayed", here, key);
    const tooEarly = await place("replayed", key, there);
    first.goOn();
    const answer = await first.answer;

    const replayed = await place("replayed", key, there);
    const another = await place("replayed", {}, here);

    expect([tooEarly.status, answer.status, replayed.status, another.status]).to.deep.equal([409, 201, 201, 201]);
    expect(replayed.headers.get("idempotency-replayed")).to.equal("true");
    expect(replayed.body).to.deep.equal(answer.body);
    expect(await placed("replayed")).to.equal(2);
  });

  it("answers what it did though it lost its lock meanwhile: what may be done is for the database to say", async () => {
    const redis = new Redis(server.valkey.url);
    const first = await begin("lost", hasty);
    await redis.del("lock:order:lost");
    // Long enough for an extension to find the lock gone.
    await sleep(shortLeaseMs);

    const second = await place("lost", {}, there);
    first.goOn();
    const answer = await first.answer;
    redis.disconnect();

    expect([second.status, answer.status]).to.deep.equal([201, 201]);
    expect(await placed("lost")).to.equal(2);
  });

  it("keeps its lock for as long as it runs", async () => {
    const first = await begin("long", hasty);
    await sleep(3 * shortLeaseMs);
    const second = await place("long", {}, there);
    first.goOn();

    expect([second.status, (await first.answer).status]).to.deep.equal([409, 201]);
  });

  it("does nothing when no lock can be had", async () => {
    let run = 0;
    withoutRedis.meanwhile = async () => void (run += 1);

    const { status, body, headers } = await place("unlocked", {}, withoutRedis);

    expect(status).to.equal(503);
    expect(body.error).to.include({ code: "SERVICE_UNAVAILABLE", message: "the lock service cannot be reached" });
    expect(headers.get("retry-after")).to.equal("1");
    expect([run, await placed("unlocked")]).to.deep.equal([0, 0]);
  });

  it("leaves other methods and streams alone", async () => {
    const noted = await withoutRedis.client().rest("PUT", "/api/v1/orders/noted");
    const watched = await withoutRedis.client().rest("GET", "/api/v1/orders");

    expect([noted.status, watched.status]).to.deep.equal([200, 200]);
  });

  it("stops the start when its service has no such method", () => {
    const service = {
      descriptor: here.descriptor,
      implementation: {},
      exclusions: { cancelOrder: { name: () => "x", refusal: "x" } },
    };

    expect(() => holding([service], server.server.core.locks)).to.throw("orders.Orders has no method cancelOrder");
  });
});
