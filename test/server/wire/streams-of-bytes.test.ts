import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { notFound } from "../../../src/server/errors.ts";
import { callOf } from "../../../src/server/wire/call.ts";
import { Client } from "../../harness/client.ts";
import { sendHttp2 } from "./raw-http.ts";
import { useRestDoor } from "./rest-door.ts";

const pieces = [randomBytes(100_000), Buffer.alloc(0), randomBytes(1), randomBytes(200_000)];
const contentType = "application/x-thing";
const piece = (data: Buffer) => ({ contentType, data });

/** How many pieces an endless thing has given since the test began, and whether nobody wants more. */
const endless = { given: 0, isOver: false };

/** Things to download: what comes of each is in its id. */
async function* streamThing({ id }: { id: string }, context: Parameters<typeof callOf>[0]) {
  Object.assign(callOf(context).headers, { "content-disposition": `attachment; filename="${id}"`, etag: `"${id}"` });
  if (id === "missing") throw notFound("thing");
  if (id === "whole") yield* pieces.map(piece);
  if (id === "broken") {
    yield piece(pieces[0] as Buffer);
    throw new Error("of the test");
  }
  if (id !== "endless") return;
  try {
    for (; ; endless.given += 1) yield piece(Buffer.alloc(65_536));
  } finally {
    endless.isOver = true;
  }
}

describe("A file in pieces", () => {
  const url = useRestDoor("transcoding.Streaming", { streamThing });
  const pathOf = (id: string) => `/api/v1/things/${id}/stream`;
  const download = (id: string, method = "GET") => fetch(`${url()}${pathOf(id)}`, { method });
  beforeEach(() => {
    endless.given = 0;
    endless.isOver = false;
  });

  it("has exactly the bytes of its pieces, under their content type, with the headers that the method set", async () => {
    const response = await download("whole");

    expect(response.status).to.equal(200);
    expect(response.headers.get("content-type")).to.equal(contentType);
    expect(response.headers.get("content-disposition")).to.equal('attachment; filename="whole"');
    expect(response.headers.get("cache-control")).to.equal("no-store");
    expect(response.headers.get("x-content-type-options")).to.equal("nosniff");
    expect(Buffer.from(await response.arrayBuffer()).equals(Buffer.concat(pieces))).to.equal(true);
  });

  it("is the same over HTTP/2", async () => {
    const { status, headers, bytes, reset } = await sendHttp2(url(), { ":path": pathOf("whole") });

    expect([status, reset, headers["content-type"]]).to.deep.equal([200, 0, contentType]);
    expect(bytes.equals(Buffer.concat(pieces))).to.equal(true);
  });

  it("may be empty", async () => {
    const response = await download("empty");

    expect([response.status, response.headers.get("content-type")]).to.deep.equal([200, "application/octet-stream"]);
    expect((await response.arrayBuffer()).byteLength).to.equal(0);
  });

  it("answers HEAD with the headers of GET, and makes no piece beyond the first", async () => {
    const response = await download("endless", "HEAD");

    expect(response.headers.get("content-type")).to.equal(contentType);
    expect(response.headers.get("content-disposition")).to.equal('attachment; filename="endless"');
    expect((await response.arrayBuffer()).byteLength).to.equal(0);
    expect(endless).to.deep.equal({ given: 0, isOver: true });
  });

  it("that is refused before its first piece is a refusal like any other", async () => {
    const { status, headers, body } = await new Client(url(), undefined).rest("GET", pathOf("missing"));

    expect(status).to.equal(404);
    expect(headers.get("content-type")).to.equal("application/json; charset=utf-8");
    expect(body.error).to.include({ code: "RESOURCE_NOT_FOUND", message: "thing not found" });
    expect([headers.get("content-disposition"), headers.get("etag")]).to.deep.equal([null, null]);
  });

  it("that breaks amid is broken off, so that nobody takes it for the whole", async () => {
    const response = await download("broken");
    const broken = await response.arrayBuffer().catch((error: unknown) => error);
    const overHttp2 = await sendHttp2(url(), { ":path": pathOf("broken") });

    expect(response.status).to.equal(200);
    expect(broken).to.be.instanceOf(Error);
    expect(overHttp2.reset).not.to.equal(0);
  });

  /** Whoever has taken the first bytes of an endless thing and then waits, over each protocol; the answer goes away. */
  const readers: Record<string, () => Promise<() => void>> = {
    "HTTP/1.1": async () => {
      const request = get(`${url()}${pathOf("endless")}`);
      const [response] = (await once(request, "response")) as [IncomingMessage];
      await once(response, "readable");
      return () => void response.destroy();
    },
    "HTTP/2": async () => {
      const session = connectHttp2(url());
      session.on("error", () => {});
      const stream = session.request({ ":path": pathOf("endless") });
      await once(stream, "readable");
      return () => session.destroy();
    },
    "HTTP/2, of one stream alone": async () => {
      const session = connectHttp2(url());
      const stream = session.request({ ":path": pathOf("endless") });
      await once(stream, "readable");
      return () => {
        stream.once("close", () => session.close());
        stream.close(8);
      };
    },
  };

  /** How many pieces have been given once no more are. */
  const settled = async (): Promise<number> => {
    for (let before = -1; before !== endless.given; await sleep(200)) before = endless.given;
    return endless.given;
  };

  for (const [protocol, read] of Object.entries(readers)) {
    it(`goes no faster than its reader over ${protocol}, and ends when that one goes away`, async () => {
      const goAway = await read();
      const given = await settled();

      goAway();

      while (!endless.isOver) await sleep(5);
      expect(given).to.be.below(500);
      expect(await settled()).to.be.at.most(given + 1);
    });
  }
});
