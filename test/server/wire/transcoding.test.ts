import { expect } from "chai";
import { readDescriptors } from "../../../src/contract/generate-openapi.ts";
import { callOf } from "../../../src/server/wire/call.ts";
import { bindingsOf } from "../../../src/server/wire/http-rule.ts";
import { Client } from "../../harness/client.ts";
import { useRestDoor } from "./rest-door.ts";

const implementation = {
  listThings: ({ shelf, color, broken }: { shelf: string; color: string[]; broken: boolean }) =>
    shelf === "empty" ? {} : { things: [{ name: [shelf, ...color].join(" "), broken }] },
  downloadThing: ({ id }: { id: string }, context: Parameters<typeof callOf>[0]) => {
    callOf(context).headers["content-disposition"] = `attachment; filename="${id}.bin"`;
    return { contentType: "application/octet-stream", data: Buffer.from([0, 0xff, 0x0a]) };
  },
  pageThings: ({ page }: { page: number }) => ({ data: [{ name: "one" }], total: 7, page, limit: 3 }),
  countThings: ({ shelf }: { shelf: string }) =>
    shelf === "empty"
      ? {}
      : { colors: { red: "two", "": "none" }, weights: { heavy: 9_007_199_254_740_993n }, total: 4 },
};

describe("The REST door", () => {
  const url = useRestDoor("transcoding.Transcoding", implementation);
  let client: Client;
  before(() => {
    client = new Client(url(), undefined);
  });

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

  it("answers a map as an object, with 64 bits as text", async () => {
    const { body } = await client.rest("GET", "/api/v1/shelves/top/count");

    expect(body).to.deep.equal({
      colors: { red: "two", "": "none" },
      weights: { heavy: "9007199254740993" },
      total: 4,
    });
  });

  it("answers a map that nobody filled as an empty object", async () => {
    const { body } = await client.rest("GET", "/api/v1/shelves/empty/count");

    expect(body).to.deep.equal({ colors: {}, weights: {}, total: 0 });
  });

  it("says in headers which page it is, of an envelope that says it beside the data", async () => {
    const { headers, body } = await client.rest("GET", "/api/v1/things?page=2");

    const names = ["x-total-count", "x-page", "x-per-page"];
    expect(names.map((name) => headers.get(name))).to.deep.equal(["7", "2", "3"]);
    expect(body).to.deep.equal({ data: [{ name: "one", weight: null, broken: false }], total: 7, page: 2, limit: 3 });
  });

  it("says nothing of pages in headers where an answer only counts", async () => {
    const { headers } = await client.rest("GET", "/api/v1/shelves/top/count");

    expect([...headers.keys()].filter((name) => /^x-(total|page|per)/.test(name))).to.deep.equal([]);
  });
});

describe("An HTTP rule", () => {
  it("that the door cannot serve stops the start: a path field that is not there", () => {
    const method = readDescriptors("test/proto").getService("transcoding.Transcoding")?.method["listThings"];
    const broken = { ...method, input: { ...method?.input, fields: [] } };

    expect(() => bindingsOf(broken as never)).to.throw("there is no field shelf");
  });
});
