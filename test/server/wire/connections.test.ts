import { once } from "node:events";
import { createServer } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Refusal } from "../../../src/server/errors.ts";
import { readBody } from "../../../src/server/wire/body.ts";
import { cleartextListener, type Handler } from "../../../src/server/wire/listener.ts";
import { useServer } from "../../harness/server.ts";
import { errorLines, open, parseAnswers, request, send } from "./raw-http.ts";

const server = useServer();
const authorization = () => ({ Authorization: `Bearer ${server.admin.token}` });

/** Connections of the pool that a call holds. */
const busy = () => server.server.core.db.pool.totalCount - server.server.core.db.pool.idleCount;

async function until(condition: () => boolean, what: string): Promise<void> {
  for (let tries = 0; !condition(); tries += 1) {
    if (tries > 200) throw new Error(`never came: ${what}`);
    await sleep(10);
  }
}

describe("A connection", () => {
  it("that carries several requests at once answers all of them, in their order", async () => {
    const { id } = await server.secret();
    const keepAlive = { ...authorization(), Connection: "keep-alive" };
    const first = request("GET", `/api/v1/secrets/${id}`, { headers: keepAlive });
    const second = request("GET", "/api/v1/nothing", { headers: keepAlive });
    const body = JSON.stringify({ change_reason: "x" });
    const third = request("PUT", `/api/v1/secrets/${id}`, {
      headers: { ...keepAlive, "Content-Type": "application/json" },
      body,
    });
    const last = request("GET", "/api/v1/health");

    const answers = await send(server.url, Buffer.concat([first, second, third, last]));

    expect(answers.map(({ status }) => status)).to.deep.equal([200, 404, 200, 200]);
  });

  it("is closed when a body was not read to its end, so that the rest is not taken for the next request", async () => {
    const headers = { Connection: "keep-alive", "Content-Length": "1000" };
    const body = "GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n";

    const answers = await send(server.url, request("DELETE", "/api/v1/secrets/x", { headers, body }));

    expect(answers.map(({ status }) => status)).to.deep.equal([401]);
    expect(answers[0]?.headers["connection"]).to.equal("close");
  });

  it("that is reset while the server reads the body leaves nothing behind", async () => {
    const head = request("POST", "/api/v1/secrets", { headers: { ...authorization(), "Content-Length": "1000" } });
    for (let round = 0; round < 20; round += 1) {
      const { socket, closed } = open(server.url);
      socket.write(Buffer.concat([head, Buffer.from('{"key":')]));
      await sleep(2);
      socket.resetAndDestroy();
      await closed;
    }

    const { status } = await server.anonymous.rest("GET", "/api/v1/health");

    expect(status).to.equal(200);
    await until(() => busy() === 0, "all connections of the pool idle");
    expect(errorLines(server.log)).to.deep.equal([]);
  });

  it("that is reset while the server works leaves no connection of the pool taken", async () => {
    const project = server.projectId;
    for (let round = 0; round < 30; round += 1) {
      const { socket, closed } = open(server.url);
      const body = JSON.stringify({ key: `reset-${round}`, value: "v".repeat(60_000), project_id: project });
      socket.write(request("POST", "/api/v1/secrets", { headers: authorization(), body }));
      await sleep(round % 5);
      socket.resetAndDestroy();
      await closed;
    }

    const { status } = await server.admin.rest("GET", `/api/v1/secrets?project_id=${project}`);

    expect(status).to.equal(200);
    await until(() => busy() === 0, "all connections of the pool idle");
    expect(errorLines(server.log)).to.deep.equal([]);
  });

  it("of HTTP/2 whose streams are reset at any moment stays good for others", async () => {
    const session = connectHttp2(server.url);
    session.on("error", () => {});
    const headers = { ":method": "POST", ":path": "/api/v1/secrets", authorization: authorization().Authorization };
    const grpc = {
      ...headers,
      ":path": "/holdfast.secrets.v1.SecretService/GetSecret",
      "content-type": "application/grpc",
    };
    for (let round = 0; round < 40; round += 1) {
      const stream = session.request(round % 2 === 0 ? headers : grpc);
      stream.on("error", () => {});
      const closed = once(stream, "close"); // which may come before the reset
      stream.write(round % 4 < 2 ? '{"key":' : Buffer.from([0, 0, 0, 0, 0]));
      if (round % 3 === 0) stream.end();
      await sleep(round % 3);
      stream.close(8);
      await closed;
    }

    const last = session.request({ ":path": "/api/v1/health" });
    const [answer] = (await once(last, "response")) as [Record<string, unknown>];
    session.destroy();

    expect(answer[":status"]).to.equal(200);
    await until(() => busy() === 0, "all connections of the pool idle");
    expect(errorLines(server.log)).to.deep.equal([]);
  });

  it("that opens with HTTP/2's greeting byte by byte is served as HTTP/2", async () => {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    await once(socket, "connect");
    socket.setNoDelay(true);
    const greeting = Buffer.concat([
      Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
      Buffer.from("000000040000000000", "hex"),
    ]);
    for (const byte of greeting) {
      socket.write(Buffer.from([byte]));
      await sleep(1);
    }

    const [settings] = (await once(socket, "data")) as [Buffer];
    socket.destroy();

    expect(settings[3]).to.equal(4); // a SETTINGS frame (RFC 9113 section 6.5)
  });
});

describe("A connection that is slow", () => {
  const patience = { headersMs: 150, requestMs: 300, idleSessionMs: 200, checkEveryMs: 25 };
  const handler: Handler = (request, response) => {
    request.resume();
    request.on("end", () => response.end());
  };
  const listener = cleartextListener(handler, patience);
  let url: string;
  before(async () => {
    url = `http://127.0.0.1:${(await listener.listen("127.0.0.1", 0)).port}`;
  });
  after(() => listener.close(0));

  const cases: Record<string, readonly [start: string, status: number | undefined]> = {
    "and never says a word is closed": ["", undefined],
    "and stops within HTTP/2's greeting is closed": ["PRI * HT", undefined],
    "within the headers is answered 400 and closed": ["GET / HTTP/1.1\r\nHost: x\r\n", 400],
    "within the body is answered 400 and closed": ["POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{", 400],
  };
  for (const [what, [start, status]] of Object.entries(cases)) {
    it(what, async () => {
      const answers = await send(url, start);

      expect(answers.map((answer) => answer.status)).to.deep.equal(status === undefined ? [] : [status]);
    });
  }

  it("and idle over HTTP/2 is closed", async () => {
    const session = connectHttp2(url);
    await once(session, "connect");

    await once(session, "close");
  });
});

describe("A body that is slow", () => {
  it("is given up after its time, and the caller told so", async () => {
    const outcomes: unknown[] = [];
    const reader = createServer((request, response) => {
      readBody(request, { mostBytes: 100, timeoutMs: 50 }).then(
        (outcome) => {
          outcomes.push(outcome);
          response.end();
        },
        () => {},
      );
    });
    reader.listen(0, "127.0.0.1");
    await once(reader, "listening");
    const { socket, received } = open(`http://127.0.0.1:${(reader.address() as AddressInfo).port}`);
    socket.write(request("POST", "/", { headers: { "Content-Length": "10" }, body: "{" }));

    await until(() => received() !== "", "an answer");
    socket.destroy();
    reader.close();

    expect(parseAnswers(received()).length).to.equal(1);
    const [refusal] = outcomes as [Refusal];
    expect(refusal).to.be.instanceOf(Refusal);
    expect(refusal.errorCode).to.equal("VALIDATION_ERROR");
    expect(refusal.faults).to.deep.equal([{ field: "body", message: "arrived too slowly" }]);
  });
});
