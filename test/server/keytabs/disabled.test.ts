import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();

const id = "kt_00000000-0000-7000-8000-000000000000";
const requests: [string, string, unknown?][] = [
  ["POST", "", { name: "k", keytab_data: newKeytab().toString("base64") }],
  ["POST", "", { name: "", keytab_data: "not base64!" }],
  ["GET", ""],
  ["GET", "?status=nonsense"],
  ["GET", `/${id}`],
  ["GET", "/no-id"],
  ["PUT", `/${id}`, {}],
  ["DELETE", `/${id}`],
  ["GET", `/${id}/download`],
  ["GET", `/${id}/history`],
  ["POST", `/${id}/check-compliance`, {}],
  ["POST", "/refresh-compliance", {}],
  ["GET", "/dashboard"],
];

describe("Without SERVICE_KEYTAB_ENABLED", () => {
  it("every path of keytabs is 503, once it is known who asks", async () => {
    const nobody = await server.as("nobody", []);
    for (const [verb, rest, request] of requests) {
      for (const client of [server.admin, nobody]) {
        const { status, body } = await client.rest(verb, `/api/v1/keytabs${rest}`, request);

        expect(status, `${verb} ${rest}`).to.equal(503);
        expect(body.error.code).to.equal("FEATURE_DISABLED");
      }
      const { status, body } = await server.anonymous.rest(verb, `/api/v1/keytabs${rest}`, request);
      expect(status, `${verb} ${rest}`).to.equal(401);
      expect(body.error.code).to.equal("AUTH_REQUIRED");
    }
    expect(await server.sql("select 1 from keytab")).to.deep.equal([]);
  });

  it("every method over gRPC is FAILED_PRECONDITION", async () => {
    const client = server.admin.grpc(KeytabService);
    const metadata = server.admin.metadata();
    const streamed = async () => {
      for await (const piece of client.downloadKeytab({ id }, metadata)) expect.fail(`a piece: ${piece.data.length}`);
    };
    const calls = [
      client.importKeytab({ name: "k", keytabData: newKeytab() }, metadata),
      client.listKeytabs({}, metadata),
      client.getKeytab({ id }, metadata),
      client.updateKeytab({ id }, metadata),
      client.deleteKeytab({ id }, metadata),
      streamed(),
      client.listKeytabHistory({ id }, metadata),
      client.checkKeytabCompliance({ id }, metadata),
      client.refreshKeytabCompliance({}, metadata),
      client.getKeytabDashboard({}, metadata),
    ] as Promise<unknown>[];

    const outcomes = await Promise.allSettled(calls);
    client.close();

    expect(outcomes).to.have.length(KeytabService.methods.length);
    for (const outcome of outcomes) expect(outcome).to.have.nested.property("reason.code", 9);
  });

  it("the rest of the service is unaffected", async () => {
    const { key } = await server.secret();
    const health = await server.anonymous.rest("GET", "/api/v1/health");

    expect(key).to.be.a("string");
    expect(health.body.status).to.equal("healthy");
  });
});

describe("With SERVICE_KEYTAB_ENABLED in whatever case", () => {
  it("keytabs are served", async () => {
    const enabled = await server.startReplica({ KEYTAB_ENABLED: "TRUE" });
    const { headers, status } = await fetch(`http://127.0.0.1:${enabled.address?.port}/api/v1/keytabs`, {
      headers: { authorization: `Bearer ${server.admin.token}` },
    });

    expect(status).to.equal(200);
    expect(headers.get("x-total-count")).to.equal("0");
  });
});
