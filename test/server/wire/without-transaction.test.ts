import { expect } from "chai";
import { unavailable } from "../../../src/server/errors.ts";
import { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { useOrders } from "./orders.ts";

const server = useServer();
const orders = useOrders(server);
const note = (name: string, requestId: string, by = orders.client()) =>
  by.rest("PUT", `/api/v1/orders/${name}`, undefined, { "x-request-id": requestId });
const outcomes = async (requestId: string) => {
  const rows = await server.sql("select action, outcome, reason from audit_event where request_id = $1", [requestId]);
  return rows.map(({ action, outcome, reason }) => [action, outcome, reason]);
};

describe("A method that says it needs no transaction", () => {
  it("has done what it did when it fails later, where another method has done nothing", async () => {
    const failed = await note("failing", "noted-failing");
    const kept = await orders.names();
    const placed = await orders.client().rest("POST", "/api/v1/orders", { name: "failing" });

    expect([failed.status, placed.status]).to.deep.equal([500, 500]);
    expect(kept).to.deep.equal(["failing"]);
    expect(await orders.names()).to.deep.equal(["failing"]);
    expect(await outcomes("noted-failing")).to.deep.equal([["order.note", "failure", "INTERNAL_ERROR"]]);
  });

  it("is recorded all the same before it answers, and not answered when it cannot be", async () => {
    const answered = await note("recorded", "noted");
    const { audit } = server.server.core;
    const write = audit.write.bind(audit);
    audit.write = async () => {
      throw unavailable("of the test");
    };

    const refused = await note("unrecorded", "not-noted");
    audit.write = write;

    expect([answered.status, refused.status]).to.deep.equal([200, 503]);
    expect(await outcomes("noted")).to.deep.equal([["order.note", "success", null]]);
    expect(await outcomes("not-noted")).to.deep.equal([]);
  });

  it("asks who and whether like any other", async () => {
    const nobody = await note("x", "by-nobody", new Client(orders.client().url, undefined));
    const elsewhere = await note("x", "by-somebody", orders.client(server.projectId));

    expect([nobody.status, elsewhere.status]).to.deep.equal([401, 403]);
    expect(await outcomes("by-somebody")).to.deep.equal([["order.note", "denied", "PERMISSION_DENIED"]]);
  });
});
