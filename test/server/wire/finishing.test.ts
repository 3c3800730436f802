import { expect } from "chai";
import { unavailable } from "../../../src/server/errors.ts";
import { until } from "../../faults/own-engines.ts";
import { useServer } from "../../harness/server.ts";
import { useOrders } from "./orders.ts";

const server = useServer();
const orders = useOrders(server);
const path = "/api/v1/orders";
const place = (name: string, headers: Record<string, string> = {}, by = orders.client()) =>
  by.rest("POST", path, { name }, headers);

describe("What follows the commit of a method", () => {
  let completed: string[] = [];
  beforeEach(() => {
    completed = [];
    orders.complete = async (order: { name: string; prepared?: string }) => {
      completed.push(order.name);
      return { name: order.name, prepared: "delivered" };
    };
  });

  it("answers in place of the method, over every door", async () => {
    const overRest = await place("over-rest");
    const grpc = orders.client().grpc(orders.descriptor);
    const { placeOrder } = grpc as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    const overGrpc = await placeOrder?.({ name: "over-grpc" }, orders.client().metadata());
    grpc.close();

    expect(overRest.status).to.equal(201);
    expect(overRest.body).to.deep.equal({ name: "over-rest", prepared: "delivered" });
    expect(overGrpc).to.include({ name: "over-grpc", prepared: "delivered" });
    expect(completed).to.deep.equal(["over-rest", "over-grpc"]);
  });

  it("finds what was committed, and no connection is kept meanwhile", async () => {
    const { pool } = server.server.core.db;
    let found: string[] = [];
    orders.complete = async (order: { name: string }) => {
      await until(() => pool.totalCount === pool.idleCount);
      found = await orders.names();
      return order;
    };

    const { status } = await place("committed");

    expect(status).to.equal(201);
    expect(found).to.include("committed");
  });

  it("may fail: then that is told, what was committed stands, and so does its record", async () => {
    orders.complete = () => Promise.reject(unavailable("nobody is at home"));

    const { status, body } = await place("undelivered", { "x-request-id": "undelivered" });

    expect([status, body.error.code, body.error.message]).to.deep.equal([
      503,
      "SERVICE_UNAVAILABLE",
      "nobody is at home",
    ]);
    expect(await orders.names()).to.include("undelivered");
    const events = await server.sql("select action, outcome from audit_event where request_id = 'undelivered'");
    expect(events).to.deep.equal([{ action: "order.place", outcome: "success" }]);
  });

  it("does not come after what was refused or failed", async () => {
    const statuses = [
      (await place("refused", {}, orders.client("nowhere"))).status,
      (await place("")).status,
      (await place("failing")).status,
    ];

    expect(statuses).to.deep.equal([403, 400, 500]);
    expect(completed).to.deep.equal([]);
  });

  it("comes again with an outcome that is replayed, which is what the method answered", async () => {
    const key = { "idempotency-key": "once" };
    orders.complete = () => Promise.reject(unavailable("nobody is at home"));
    const first = await place("again", key);
    orders.complete = async (order: { name: string; prepared?: string }) => {
      completed.push(order.name);
      return { ...order, prepared: `${order.prepared}, delivered` };
    };

    const second = await place("again", key);

    expect([first.status, second.status]).to.deep.equal([503, 201]);
    expect(second.body).to.deep.equal({ name: "again", prepared: ", delivered" });
    expect((await orders.names()).filter((name) => name === "again")).to.have.length(1);
    expect(completed).to.deep.equal(["again"]);
  });

  it("hears of it when the caller goes away", async () => {
    const started = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<void>();
    orders.complete = (_: never, __: unknown, signal: AbortSignal) => {
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
    const request = { method: "POST", body: '{"name":"abandoned"}', headers, signal: caller.signal };
    const abandoned = fetch(`${url}${path}`, request).catch(() => {});
    await started.promise;

    caller.abort();
    await Promise.all([gone.promise, abandoned]);

    expect(await orders.names()).to.include("abandoned");
  });
});
