import { createHash } from "node:crypto";
import { Agent, type IncomingMessage } from "node:http";
import { createConnection, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import type { PublishedCrl } from "../../src/ocsp/status-source.ts";
import { newSerialNumber } from "../../src/standards/x509/serial-number.ts";
import { certId, ocspRequest } from "../standards/ocsp/requests.ts";
import { TestAuthority } from "./authority.ts";
import { MemorySource } from "./memory-source.ts";
import { ResponderUnderTest } from "./responder-under-test.ts";

const hourMs = 3_600_000;

describe("The OCSP responder", () => {
  let authority: TestAuthority;
  let source: MemorySource;
  let responder: ResponderUnderTest;
  let query: Buffer;

  before(async () => {
    authority = await TestAuthority.create();
    query = ocspRequest({ certIds: [certId({ issuer: authority.names })] });
  });

  beforeEach(async () => {
    source = new MemorySource();
    await source.add(authority);
    source.issue(authority, "1");
    responder = await ResponderUnderTest.start(source);
  });

  afterEach(() => responder.close(100));

  const errorOf = (body: Buffer) => JSON.parse(body.toString()).error as Record<string, unknown>;

  describe("gives revocation lists", () => {
    let piecesRead: number;
    const pieces = Array.from({ length: 50 }, (_, index) => Buffer.alloc(60_000, index));
    const sha256 = createHash("sha256").update(Buffer.concat(pieces)).digest("hex");

    function publish(crl: Partial<PublishedCrl> = {}): string {
      piecesRead = 0;
      source.crls.set(authority.id, {
        number: 1,
        thisUpdate: new Date(Date.now() - hourMs),
        nextUpdate: new Date(Date.now() + hourMs),
        size: 3_000_000,
        sha256,
        async *read() {
          for (const piece of pieces) {
            piecesRead += 1;
            yield piece;
          }
        },
        ...crl,
      });
      return `/crl/${authority.id}.crl`;
    }

    it("whole, with what caches may know of them", async () => {
      const path = publish();

      for (const at of [path, `/ocsp${path}`]) {
        const { status, headers, body } = await responder.get(at);

        expect(status).to.equal(200);
        expect(createHash("sha256").update(body).digest("hex")).to.equal(sha256);
        expect(headers).to.include({
          "content-type": "application/pkix-crl",
          "content-length": "3000000",
          etag: `"${sha256}"`,
          "cache-control": "max-age=300, public, no-transform, must-revalidate",
        });
        const { thisUpdate, nextUpdate } = source.crls.get(authority.id) as PublishedCrl;
        expect(headers["last-modified"]).to.equal(thisUpdate.toUTCString());
        expect(headers.expires).to.equal(nextUpdate.toUTCString());
      }
    });

    it("without reading them for HEAD, or for whoever has them", async () => {
      const path = publish();
      const since = (offsetMs: number) => new Date(Date.now() + offsetMs).toUTCString();
      const read = async (options: object) => (await responder.get(path, options)).status;

      expect((await responder.get(path, { method: "HEAD" })).headers["content-length"]).to.equal("3000000");
      expect(await read({ headers: { "if-none-match": `"${sha256}"` } })).to.equal(304);
      expect(await read({ headers: { "if-modified-since": since(-hourMs + 1000) } })).to.equal(304);
      expect(piecesRead).to.equal(0);
      expect(await read({ headers: { "if-modified-since": since(-2 * hourMs) } })).to.equal(200);
      expect(await read({ headers: { "if-modified-since": "yesterday" } })).to.equal(200);
      // The tag is the better witness (RFC 9110 section 13.2.2).
      expect(await read({ headers: { "if-none-match": '"other"', "if-modified-since": since(0) } })).to.equal(200);
    });

    it("to nobody for longer than they are true", async () => {
      const ages = [];
      for (const seconds of [100, -100]) {
        const path = publish({ nextUpdate: new Date(Date.now() + seconds * 1000) });
        const { headers } = await responder.get(path, { method: "HEAD" });
        ages.push(Number(/^max-age=(\d+),/.exec(headers["cache-control"] ?? "")?.[1]));
      }

      expect(ages[0]).to.be.within(90, 99);
      expect(ages[1]).to.equal(0);
    });

    it("25 at a time to one address, without harm to others, and again when there is room", async () => {
      const addressOf = ({ headers }: IncomingMessage) => String(headers["x-client"]);
      const busy = await ResponderUnderTest.start(source, { addressOf });
      const goOn = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      let under = 0;
      const path = publish({
        async *read() {
          under += 1;
          if (under === 25) begun.resolve();
          await goOn.promise;
          yield* pieces;
        },
      });
      const get = (client: string) => busy.get(path, { headers: { "x-client": client } });

      const slow = Array.from({ length: 25 }, () => get("slow"));
      await begun.promise;
      const refused = await get("slow");
      const other = get("other");
      goOn.resolve();

      expect([refused.status, refused.headers["retry-after"]]).to.deep.equal([503, "5"]);
      expect((await other).status).to.equal(200);
      for (const answer of slow) expect((await answer).status).to.equal(200);
      expect((await get("slow")).status).to.equal(200);
      await busy.close(100);
    });

    it("no faster than the client takes them, and not at all when it is gone", async () => {
      const ended = Promise.withResolvers<void>();
      const path = publish({
        size: 10_000_000_000,
        async *read() {
          try {
            for (;;) {
              piecesRead += 1;
              yield pieces[0] as Buffer;
            }
          } finally {
            ended.resolve();
          }
        },
      });
      const socket = await connect(responder.port, `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
      socket.pause();

      await sleep(200);
      const atFirst = piecesRead;
      await sleep(100);
      expect(piecesRead).to.equal(atFirst);
      expect(atFirst).to.be.within(1, 500);
      socket.destroy();
      await ended.promise;
      expect(responder.log).to.deep.equal([]);
    });

    it("that break off when they cannot be read on, rather than end as if they were whole", async () => {
      const path = publish({
        async *read() {
          yield pieces[0] as Buffer;
          throw new Error("the database is away");
        },
      });

      const failure = await responder.get(path).then(
        () => "",
        (error: NodeJS.ErrnoException) => error.code,
      );

      expect(failure).to.equal("ECONNRESET");
      expect(responder.log).to.have.length(1);
    });

    it("of no authority that has none, and by no other path", async () => {
      publish();
      const id = authority.id;
      const paths = [crypto.randomUUID(), "x", "..%2f", `${id}%00`, id.toUpperCase()].map(
        (other) => `/crl/${other}.crl`,
      );

      for (const path of [...paths, `/crl/${id}`, `/crl/${id}.crlx`, "/crl/", "/ca/", `/ca/${id}.crl`]) {
        const { status, headers, body } = await responder.get(path);

        expect(status, path).to.equal(404);
        expect(errorOf(body), path).to.include({ code: "RESOURCE_NOT_FOUND", request_id: headers["x-request-id"] });
        expect(headers["cache-control"]).to.equal("no-store");
      }
    });
  });

  describe("gives certificates of authorities", () => {
    it("in DER, for a day", async () => {
      const path = `/ca/${authority.id}.crt`;

      const { status, headers, body } = await responder.get(path);

      expect(status).to.equal(200);
      expect(headers["content-type"]).to.equal("application/pkix-cert");
      expect(headers["cache-control"]).to.match(/^max-age=863\d\d, public/);
      expect(body).to.deep.equal(Buffer.from(authority.certificate.rawData));
      const again = await responder.get(path, { headers: { "if-none-match": headers.etag } });
      expect([again.status, again.body.length]).to.deep.equal([304, 0]);
      expect((await responder.get(path, { method: "HEAD" })).headers["content-length"]).to.equal(String(body.length));
    });

    it("of no others", async () => {
      expect((await responder.get(`/ca/${crypto.randomUUID()}.crt`)).status).to.equal(404);
    });
  });

  it("says that neither can be had while the database is away", async () => {
    source.isAway = true;

    for (const path of [`/ca/${authority.id}.crt`, `/crl/${authority.id}.crl`]) {
      const { status, headers, body } = await responder.get(path);

      expect(status).to.equal(503);
      expect(headers["retry-after"]).to.equal("5");
      expect(errorOf(body)["code"]).to.equal("SERVICE_UNAVAILABLE");
    }
  });

  it("waits for no source that never answers: 503 for documents and probes", async () => {
    const never = () => new Promise<never>(() => {});
    Object.assign(source, { crl: never, certificate: never, state: never });
    const paths = [`/ca/${authority.id}.crt`, `/crl/${authority.id}.crl`, "/ready", "/health"];

    const answers = await Promise.all(paths.map((path) => responder.get(path)));

    expect(answers.map(({ status }) => status)).to.deep.equal([503, 503, 503, 503]);
    const [ready, health] = answers.slice(2).map(({ body }) => JSON.parse(body.toString()));
    expect([ready, health]).to.deep.equal([{ status: "not_ready" }, { status: "unhealthy" }]);
  });

  describe("says of itself", () => {
    const probe = async (path: string) => {
      const { status, body } = await responder.get(path);
      return [status, JSON.parse(body.toString())];
    };
    const health = (status: string, database: string, signing_key: string) => ({
      status,
      components: { database, signing_key, ca_certificates: 1 },
    });

    it("that it is well, with or without the prefix of a proxy", async () => {
      for (const prefix of ["", "/ocsp"]) {
        expect(await probe(`${prefix}/live`)).to.deep.equal([200, { status: "alive" }]);
        expect(await probe(`${prefix}/ready`)).to.deep.equal([200, { status: "ready" }]);
        expect(await probe(`${prefix}/health?x=1`)).to.deep.equal([200, health("healthy", "connected", "loaded")]);
      }
    });

    it("that it is not ready while the database is away, and yet alive", async () => {
      source.isAway = true;

      expect(await probe("/live")).to.deep.equal([200, { status: "alive" }]);
      expect(await probe("/ready")).to.deep.equal([503, { status: "not_ready" }]);
      expect(await probe("/health")).to.deep.equal([503, health("unhealthy", "disconnected", "loaded")]);
    });

    it("that it is not ready while an authority has no signing key", async () => {
      source.useSigner(authority, undefined);

      expect(await probe("/ready")).to.deep.equal([503, { status: "not_ready" }]);
      expect(await probe("/health")).to.deep.equal([503, health("unhealthy", "connected", "missing")]);
    });

    it("that something failed, when even that cannot be found out", async () => {
      source.state = () => Promise.reject(new Error("unexpected"));

      const { status, body } = await responder.get("/health");

      expect([status, errorOf(body)["code"]]).to.deep.equal([500, "INTERNAL_ERROR"]);
      expect(responder.log).to.have.length(1);
    });
  });

  it("allows GET and HEAD everywhere, and POST where queries are sent", async () => {
    const refused = async (method: string, path: string) => {
      const { status, headers } = await responder.send({ method, path });
      return `${status} ${headers.allow}`;
    };

    for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"]) {
      expect(await refused(method, "/")).to.equal("405 GET, HEAD, POST");
      expect(await refused(method, "/ocsp")).to.equal("405 GET, HEAD, POST");
    }
    for (const path of ["/health", "/ocsp/live", "/MAo=", `/crl/${authority.id}.crl`]) {
      expect(await refused("POST", path)).to.equal("405 GET, HEAD");
    }
    expect((await responder.get("/health", { method: "HEAD" })).body).to.have.length(0);
  });

  describe("limits each address", () => {
    let counted: string[];
    let exceeded: boolean;

    beforeEach(async () => {
      [counted, exceeded] = [[], false];
      await responder.close(100);
      responder = await ResponderUnderTest.start(source, {
        addressOf: ({ headers }) => String(headers["x-forwarded-for"]),
        limit: async (address) => {
          counted.push(address);
          return { exceeded, retryAfterSeconds: 17 };
        },
      });
    });

    it("in all but probes", async () => {
      const options = { headers: { "x-forwarded-for": "192.0.2.1" } };
      for (const path of ["/MAo=", "/", `/crl/${authority.id}.crl`, `/ca/${authority.id}.crt`, "/crl/x"]) {
        await responder.get(path, options);
      }
      for (const path of ["/health", "/ready", "/live", "/ocsp/health"]) await responder.get(path, options);

      expect(counted).to.deep.equal(Array.from({ length: 5 }, () => "192.0.2.1"));
    });

    it("with 429 and when to come again, and without the headers of other limits", async () => {
      exceeded = true;

      for (const answer of [await responder.get("/MAo="), await responder.post(Buffer.alloc(100_000))]) {
        expect(answer.status).to.equal(429);
        expect(answer.headers["retry-after"]).to.equal("17");
        expect(Object.keys(answer.headers).filter((name) => name.startsWith("x-ratelimit"))).to.deep.equal([]);
        expect(errorOf(answer.body)["code"]).to.equal("RATE_LIMITED");
      }
      expect((await responder.get("/live")).status).to.equal(200);
    });

    it("and keeps no connection of those that ask too much: connections are limited by nothing else", async () => {
      const agent = new Agent({ keepAlive: true });
      const connectionOf = async () => (await responder.get("/MAo=", { agent })).headers.connection;

      const before = await connectionOf();
      exceeded = true;
      const after = await connectionOf();
      agent.destroy();

      expect([before, after]).to.deep.equal(["keep-alive", "close"]);
    });
  });

  describe("has its patience", () => {
    const patience = { headersMs: 300, requestMs: 500, idleMs: 800, checkEveryMs: 50 };

    beforeEach(async () => {
      await responder.close(100);
      responder = await ResponderUnderTest.start(source, { patience });
    });

    const post = "POST / HTTP/1.1\r\nHost: a\r\n";
    /** What comes at first, and what comes after it drop by drop. */
    const slow: Readonly<Record<string, readonly [string, string]>> = {
      "that send nothing": ["", ""],
      "that send their headers too slowly": [post, "X"],
      "that send their body too slowly": [`${post}Content-Length: 100\r\n\r\n`, "X"],
      "that send their chunks too slowly": [`${post}Transfer-Encoding: chunked\r\n\r\n`, "1\r\nX\r\n"],
    };
    for (const [which, [head, drop]] of Object.entries(slow)) {
      it(`with no clients ${which}, while others are answered`, async () => {
        const started = performance.now();
        const sockets = await Promise.all(Array.from({ length: 50 }, () => connect(responder.port, head)));
        const drip = setInterval(() => {
          if (drop !== "") for (const socket of sockets) socket.write(drop);
        }, 100);

        try {
          expect((await responder.post(query)).status).to.equal(200);
          await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once("close", resolve))));
        } finally {
          clearInterval(drip);
        }
        expect(performance.now() - started).to.be.below(3000);
        expect(responder.log).to.deep.equal([]);
      });
    }

    it("with connections that idle, but not for ever", async () => {
      const socket = await connect(responder.port, "GET /live HTTP/1.1\r\nHost: a\r\n\r\n");
      const started = performance.now();

      await new Promise((resolve) => socket.once("close", resolve));

      expect(performance.now() - started).to.be.within(700, 3000);
    });
  });

  describe("closes", () => {
    it("when what runs is done, and at once for connections that idle", async () => {
      const asked = Promise.withResolvers<void>();
      const database = Promise.withResolvers<void>();
      const states = source.states.bind(source);
      source.states = async (questions) => {
        asked.resolve();
        await database.promise;
        return states(questions);
      };
      const idle = await connect(responder.port, "GET /live HTTP/1.1\r\nHost: a\r\n\r\n");
      await new Promise((resolve) => idle.once("data", resolve));
      const running = responder.post(query);
      await asked.promise;

      const closed = responder.close();
      await new Promise((resolve) => idle.once("close", resolve));
      database.resolve();

      expect((await running).status).to.equal(200);
      await closed;
      expect(
        await responder.get("/live", { agent: false }).catch((error: NodeJS.ErrnoException) => error.code),
      ).to.equal("ECONNREFUSED");
    });

    it("in time, whatever is still under way", async () => {
      source.states = () => new Promise(() => {});
      const running = responder.post(query).catch((error: NodeJS.ErrnoException) => error.code);
      await sleep(50);

      const started = performance.now();
      await responder.close(100);

      expect(performance.now() - started).to.be.within(90, 2000);
      expect(await running).to.equal("ECONNRESET");
    });
  });

  it("does not start where somebody listens already", async () => {
    const failure = await ResponderUnderTest.start(source, { port: responder.port }).catch(
      (error: NodeJS.ErrnoException) => error.code,
    );

    expect(failure).to.equal("EADDRINUSE");
  });

  it("answers many clients at once, each its own question", async () => {
    const serials = Array.from({ length: 100 }, () => newSerialNumber());
    for (const serial of serials) source.issue(authority, serial);

    const answers = await Promise.all(
      serials.map((serial) => {
        const id = certId({ issuer: authority.names, serial: Buffer.from(serial, "hex") });
        return responder.post(ocspRequest({ certIds: [id] }));
      }),
    );

    answers.forEach(({ body }, index) =>
      expect(body.includes(Buffer.from(serials[index] ?? "", "hex"))).to.equal(true),
    );
  });
});

/** A connection that has sent some text. */
function connect(port: number, text: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(port, "127.0.0.1", () => {
      socket.off("error", reject).on("error", () => {});
      if (text !== "") socket.write(text);
      // Without a reader it would not see its end.
      resolve(socket.resume());
    });
    socket.once("error", reject);
  });
}
