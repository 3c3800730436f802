import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { readDescriptors } from "../../../src/contract/generate-openapi.ts";
import { Call, callOf } from "../../../src/server/wire/call.ts";
import { bindingsOf } from "../../../src/server/wire/http-rule.ts";
import { RestDoor } from "../../../src/server/wire/rest.ts";
import { unaryCalls } from "../../../src/server/wire/unary-calls.ts";
import { Client } from "../../harness/client.ts";

/** A service of test/proto behind the REST door alone: no chain, no database. */
function startDoor(): Server {
  const service = readDescriptors("test/proto").getService("transcoding.Transcoding");
  if (service === undefined) throw new Error("test/proto has lost its service");
  const implementation = {
    listThings: ({ shelf, color, broken }: { shelf: string; color: string[]; broken: boolean }) =>
      shelf === "empty" ? {} : { things: [{ name: [shelf, ...color].join(" "), broken }] },
    downloadThing: ({ id }: { id: string }, context: Parameters<typeof callOf>[0]) => {
      callOf(context).headers["content-disposition"] = `attachment; filename="${id}.bin"`;
      return { contentType: "application/octet-stream", data: Buffer.from([0, 0xff, 0x0a]) };
    },
  };
  const door = new RestDoor({
    calls: unaryCalls(service, implementation as object, []),
    streams: new Map(),
    newCall: () =>
      new Call(
        {
          door: "rest",
          requestId: "r",
          method: "GET",
          address: "127.0.0.1",
          header: () => undefined,
          isOwnOrigin: () => true,
        },
        undefined as never,
      ),
    admit: () => Promise.resolve(),
  });
  return createServer((request, response) => door.handle(request, response));
}

describe("The REST door", () => {
  let server: Server;
  let client: Client;
  before((done) => {
    server = startDoor().listen(0, "127.0.0.1", () => {
      client = new Client(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, undefined);
      done();
    });
  });
  after((done) => void server.close(done));

  it("answers a bare array where response_body names a list, with every field present", async () => {
    const { status, body } = await client.rest("GET", "/api/v1/shelves/top/things");

    expect(status).to.equal(200);
    expect(body).to.deep.equal([{ name: "top", weight: null, broken: false }]);
  });

  it("answers an empty array for an empty list", async () => {
    const { body } = await client.rest("GET", "/api/v1/shelves/empty/things");

    expect(body).to.deep.equal([]);
  });

  it("takes lists and truth values from the query, and a path that is percent-encoded", async () => {
    const { body } = await client.rest("GET", "/api/v1/shelves/a%2Fb/things?color=red&color=blue&broken=true");

    expect(body).to.deep.equal([{ name: "a/b red blue", weight: null, broken: true }]);
  });

  it("answers the very bytes of an HttpBody under its own content type", async () => {
    const response = await fetch(`${client.url}/api/v1/things/7/download`);

    expect(response.headers.get("content-type")).to.equal("application/octet-stream");
    expect(response.headers.get("content-disposition")).to.equal('attachment; filename="7.bin"');
    expect([...new Uint8Array(await response.arrayBuffer())]).to.deep.equal([0, 0xff, 0x0a]);
  });

  it("says without the bytes how many there would be, to HEAD", async () => {
    const response = await fetch(`${client.url}/api/v1/things/7/download`, { method: "HEAD" });

    expect(response.headers.get("content-length")).to.equal("3");
    expect(await response.text()).to.equal("");
  });
});

describe("An HTTP rule", () => {
  it("that the door cannot serve stops the start: a path field that is not there", () => {
    const method = readDescriptors("test/proto").getService("transcoding.Transcoding")?.method["listThings"];
    const broken = { ...method, input: { ...method?.input, fields: [] } };

    expect(() => bindingsOf(broken as never)).to.throw("there is no field shelf");
  });
});
