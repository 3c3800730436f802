import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { wrongState } from "../../../src/server/errors.ts";
import { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { useOrders } from "./orders.ts";

const server = useServer();
const orders = useOrders(server);
const path = "/api/v1/orders";
const place = (name: string, headers: Record<string, string> = {}, by = orders.client()) =>
  by.rest("POST", path, { name }, headers);
const outcomes = async (requestId: string) => {
  const rows = await server.sql("select action, outcome, reason from audit_event where request_id = $1", [requestId]);
  return rows.map(({ action, outcome, reason }) => [action, outcome, reason]);
};

describe("What a method waits for", () => {
  let asked = 0;
  beforeEach(() => {
    asked = 0;
    orders.prepare = async () => {
      asked += 1;
      return "paper";
    };
  });

  it("is there when the method runs, over every door", async () => {
    const overRest = await place("with-paper");
    const grpc = orders.client().grpc(orders.descriptor);
    const { placeOrder } = grpc as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    const overGrpc = await placeOrder?.({ name: "with-paper-too" }, orders.client().metadata());
    grpc.close();

    expect(overRest.status).to.equal(201);
    expect(overRest.body).to.deep.equal({ name: "with-paper", prepared: "paper" });
    expect(overGrpc).to.include({ name: "with-paper-too", prepared: "paper" });
  });

  it("is waited for before the transaction begins, and without a connection", async () => {
    const { pool } = server.server.core.db;
    const busy = () => pool.totalCount - pool.idleCount;
    const started = Promise.withResolvers<void>();
    const ready = Promise.withResolvers<string>();
    orders.prepare = () => {
      started.resolve();
      return ready.promise;
    };

    const order = place("late");
    await started.promise;
    const busyMeanwhile = await settled(busy);
    ready.resolve("late paper");

    expect(busyMeanwhile).to.equal(0);
    expect((await order).body).to.deep.equal({ name: "late", prepared: "late paper" });
  });

  it("may be refused: then the method tells it, nothing is done, and the attempt is recorded", async () => {
    orders.prepare = () => Promise.reject(wrongState("the paper is gone"));

    const { status, body } = await place("refused", { "x-request-id": "refused" });

    expect(status).to.equal(409);
    expect(body.error).to.include({ code: "RESOURCE_CONFLICT", message: "the paper is gone" });
    expect(await orders.names()).not.to.include("refused");
    expect(await outcomes("refused")).to.deep.equal([["order.place", "failure", "RESOURCE_CONFLICT"]]);
  });

  it("is not asked for on behalf of those who may not call, nor for a request that is not valid", async () => {
    const anonymous = await place("x", {}, new Client(orders.client().url, undefined));
    const invalid = await place("");

    expect([anonymous.status, invalid.status]).to.deep.equal([401, 400]);
    expect(asked).to.equal(0);
  });

  it("need not be there for an outcome that is replayed", async () => {
    const key = { "idempotency-key": "once" };
    const first = await place("replayed", key);
    orders.prepare = () => Promise.reject(wrongState("the paper is gone"));

    const again = await place("replayed", key);
    const other = await place("replayed");

    expect([first.status, again.status, other.status]).to.deep.equal([201, 201, 409]);
    expect(again.headers.get("idempotency-replayed")).to.equal("true");
    expect(again.body).to.deep.equal(first.body);
    expect((await orders.names()).filter((name) => name === "replayed")).to.have.length(1);
  });

  it("may depend on a project: who asks for it in the preparation need not ask again", async () => {
    orders.prepare = async (_, call) => call.authorizeIn(server.projectId);

    const inside = await place("undecided", {}, orders.client(server.projectId));
    const outside = await place("undecided", { "x-request-id": "outside" }, orders.client(server.admin.id));

    expect([inside.status, outside.status]).to.deep.equal([201, 403]);
    expect(await outcomes("outside")).to.deep.equal([["order.place", "denied", "PERMISSION_DENIED"]]);
  });

  it("decides nothing by itself: a method that nobody asked about a project answers nothing", async () => {
    const { status } = await place("undecided", {}, orders.client(server.projectId));

    expect(status).to.equal(500);
    expect((await orders.names()).filter((name) => name === "undecided")).to.have.length(1);
  });

  it("ends when the caller goes away, and then nothing is done", async () => {
    const started = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<void>();
    orders.prepare = (_, __, signal) => {
      started.resolve();
      return new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          reject(signal.reason as Error);
          gone.resolve();
        });
      });
    };
    const caller = new AbortController();
    const { url, token } = orders.client();
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const request = { method: "POST", body: '{"name":"abandoned"}', headers };
    const abandoned = fetch(`${url}${path}`, { ...request, signal: caller.signal }).catch(() => {});
    await started.promise;

    caller.abort();
    await Promise.all([gone.promise, abandoned]);

    orders.prepare = async () => "paper";
    expect((await place("after-abandoned")).status).to.equal(201);
    expect(await orders.names()).not.to.include("abandoned");
  });

  it("is asked for before one answer only: streams wait by themselves", async () => {
    const { status, body } = await orders.client().rest("GET", path);

    expect(status).to.equal(200);
    expect(JSON.parse(body)).to.deep.equal({ name: "watched", prepared: "" });
    expect(asked).to.equal(0);
  });
});

/** A number once it stays. */
async function settled(read: () => number): Promise<number> {
  for (let before = Number.NaN; before !== read(); await sleep(50)) before = read();
  return read();
}
