import {
  createServer,
  type IncomingHttpHeaders,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";
import {
  type AddressInfo,
  BlockList,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from "node:net";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { Outbound } from "../../src/outbound/outbound.ts";
import { OutboundError } from "../../src/outbound/outbound-error.ts";
import { makeCertificate } from "../server/wire/certificate.ts";
import { loopback, resolving } from "./network.ts";

const certificate = makeCertificate();
after(() => certificate?.remove());
if (certificate === undefined) console.log("requests over TLS are not tested: this machine has no openssl");

/** What a server of a test was sent. */
interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

describe("Outbound requests", () => {
  const servers: (Server | TcpServer)[] = [];
  let received: Received[];
  beforeEach(() => {
    received = [];
  });
  afterEach(() => {
    for (const server of servers.splice(0)) {
      if ("closeAllConnections" in server) server.closeAllConnections();
      server.close();
    }
  });

  async function listen(server: Server | TcpServer): Promise<number> {
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  }

  /** Notes what it is sent, and answers as told. */
  const noting =
    (answer: RequestListener): RequestListener =>
    async (request, response) => {
      const chunks = await request.toArray();
      const { method = "", url = "", headers } = request;
      received.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
      answer(request, response);
    };
  const startServer = (answer: RequestListener = (_, response) => response.end("ok")) =>
    listen(createServer(noting(answer)));

  const post = (outbound: Outbound, url: string, fields: Partial<Parameters<Outbound["request"]>[1]> = {}) =>
    outbound.request(url, {
      method: "POST",
      headers: {},
      body: "{}",
      timeoutMs: 10_000,
      signal: new AbortController().signal,
      ...fields,
    });
  const failure = (sending: Promise<unknown>) =>
    sending.then(
      () => expect.fail("it was answered"),
      (error: unknown) => error as OutboundError,
    );
  const trusting = (fields = {}) => new Outbound({ allowed: loopback, ...fields });

  it("are sent as they are given, and answered with status and body", async () => {
    const port = await startServer((_, response) => response.writeHead(202, { "X-Request-Id": "7" }).end("taken"));
    const { resolve } = resolving(["127.0.0.1"]);

    const answer = await post(trusting({ resolve }), `http://hooks.example.com:${port}/a/b?c=d`, {
      headers: { "x-key": "k", "content-type": "application/json" },
      body: '{"ä":1}',
    });

    expect(answer.status).to.equal(202);
    expect(answer.headers).to.include({ "x-request-id": "7" });
    expect(answer.body?.toString()).to.equal("taken");
    const [{ method, url, headers, body } = {} as Received] = received;
    expect({ method, url, body }).to.deep.equal({ method: "POST", url: "/a/b?c=d", body: '{"ä":1}' });
    expect(headers).to.include({
      host: `hooks.example.com:${port}`,
      "x-key": "k",
      "content-type": "application/json",
      "content-length": "8",
    });
  });

  const refused: [string, string][] = [
    ["an address of this machine", "http://127.0.0.1:PORT/"],
    ["its IPv6 address", "http://[::1]:PORT/"],
    ["an IPv4 address as IPv6", "http://[::ffff:127.0.0.1]:PORT/"],
    ["an address in another notation", "http://0x7f.1:PORT/"],
    ["a number", "http://2130706433:PORT/"],
    ["a name of this machine", "http://localhost:PORT/"],
    ["the metadata of a cloud", "http://169.254.169.254/latest/meta-data/"],
    ["any address", "http://0.0.0.0:PORT/"],
  ];
  for (const [what, url] of refused) {
    it(`are not sent to ${what}`, async () => {
      const port = await startServer();

      const error = await failure(post(new Outbound({ allowed: new BlockList() }), url.replace("PORT", `${port}`)));

      expect(error).to.be.instanceOf(OutboundError).and.include({ permanent: true });
      expect(received).to.deep.equal([]);
    });
  }

  it("are not sent to a name that means an address within", async () => {
    const port = await startServer();
    const { resolve } = resolving(["127.0.0.1", "10.0.0.1", "::ffff:127.0.0.1"]);

    const error = await failure(
      post(new Outbound({ allowed: new BlockList(), resolve }), `http://a.example.com:${port}/`),
    );

    expect(error).to.include({
      permanent: true,
      unsent: true,
      message: "a.example.com is at no address that may be sent to",
    });
    expect(received).to.deep.equal([]);
  });

  it("go to those addresses of a name only that may be sent to", async () => {
    const port = await startServer();
    const onlyFirst = new BlockList();
    onlyFirst.addAddress("127.0.0.1", "ipv4");
    const { resolve } = resolving(["127.0.0.2", "10.0.0.1", "127.0.0.1"]);

    const { status } = await post(new Outbound({ allowed: onlyFirst, resolve }), `http://a.example.com:${port}/`);

    expect(status).to.equal(200);
  });

  it("go to the address that was checked, also when the name means another one a moment later", async () => {
    const port = await startServer();
    const onlyFirst = new BlockList();
    onlyFirst.addAddress("127.0.0.1", "ipv4");
    const { asked, resolve } = resolving(["127.0.0.1"], ["127.0.0.2"]);
    const outbound = new Outbound({ allowed: onlyFirst, resolve });

    const first = await post(outbound, `http://rebinding.example.com:${port}/`);
    const second = await failure(post(outbound, `http://rebinding.example.com:${port}/`));

    expect(first.status).to.equal(200);
    expect(second).to.include({ permanent: true });
    expect(asked.length).to.equal(2);
    expect(received.length).to.equal(1);
  });

  it("take another address of a name when the first does not answer", async () => {
    const port = await startServer();
    const { resolve } = resolving(["127.0.0.9", "127.0.0.1"]);

    expect((await post(trusting({ resolve }), `http://a.example.com:${port}/`)).status).to.equal(200);
  });

  it("follow no redirect", async () => {
    const port = await startServer((_, response) => response.writeHead(307, { location: "/other" }).end());

    const { status } = await post(trusting(), `http://127.0.0.1:${port}/`);

    expect(status).to.equal(307);
    expect(received.map(({ url }) => url)).to.deep.equal(["/"]);
  });

  const badUrls = ["ftp://example.com/", "file:///etc/passwd", "http://user:secret@example.com/", "example.com", ""];
  for (const url of badUrls) {
    it(`need a URL of http or https without a user, unlike ${JSON.stringify(url)}`, async () => {
      const error = await failure(post(trusting(), url));

      expect(error).to.include({ permanent: true });
      expect(error.message).not.to.include("secret");
    });
  }

  for (const name of ["Host", "content-length", "Transfer-Encoding", "connection", "Upgrade", "expect"]) {
    it(`carry no header ${name} of somebody else`, async () => {
      const port = await startServer();

      const error = await failure(post(trusting(), `http://127.0.0.1:${port}/`, { headers: { [name]: "x" } }));

      expect(error).to.include({ permanent: true });
      expect(received).to.deep.equal([]);
    });
  }

  it("carry no header that would begin another one, and do not tell its value", async () => {
    const port = await startServer();

    const error = await failure(
      post(trusting(), `http://127.0.0.1:${port}/`, { headers: { "x-a": "hunter2\r\nx-b: c" } }),
    );

    expect(error).to.be.instanceOf(OutboundError).and.include({ permanent: true });
    expect(error.message).not.to.include("hunter2");
    expect(received).to.deep.equal([]);
  });

  it("tell why there is no connection, and are worth another try", async () => {
    const port = await startServer();
    servers[0]?.close();

    const error = await failure(post(trusting(), `http://127.0.0.1:${port}/secret-path`));

    expect(error).to.be.instanceOf(OutboundError).and.include({ code: "unreachable", permanent: false, unsent: true });
    expect(error.message).to.include("ECONNREFUSED").and.not.include("secret-path");
  });

  it("tell that a name means nothing, and are worth another try", async () => {
    const error = await failure(post(trusting(), "http://nowhere.invalid/"));

    expect(error).to.be.instanceOf(OutboundError).and.include({ code: "unreachable", permanent: false, unsent: true });
    expect(error.message).to.include("nowhere.invalid cannot be resolved");
  });

  /** Writes the same again and again, until nobody listens any more. */
  const repeat = (to: ServerResponse | Socket, text: string) => {
    const repeating = setInterval(() => to.write(text), 20);
    to.on("error", () => {}).on("close", () => clearInterval(repeating));
  };
  const silences: [string, () => Promise<number>][] = [
    ["answers one byte after the other", () => startServer((_, response) => repeat(response, "a"))],
    [
      "goes on to say that it will answer",
      () => listen(createTcpServer((socket) => repeat(socket, "HTTP/1.1 102 Processing\r\n\r\n"))),
    ],
    ["takes the connection and says nothing", () => listen(createTcpServer(() => {}))],
    ["answers and never ends", () => startServer((_, response) => response.write("a"))],
  ];
  for (const [what, start] of silences) {
    it(`end in time with a server that ${what}`, async () => {
      const port = await start();

      const error = await failure(post(trusting(), `http://127.0.0.1:${port}/`, { timeoutMs: 300 }));

      expect(error).to.include({
        code: "timed_out",
        message: "no answer within 0.3 s",
        permanent: false,
        unsent: false,
      });
    });
  }

  it("end in time with a name server that says nothing", async () => {
    const outbound = trusting({ resolve: () => new Promise(() => {}) });

    const error = await failure(post(outbound, "http://example.com/", { timeoutMs: 300 }));

    expect(error).to.include({ code: "timed_out", message: "no answer within 0.3 s", unsent: true });
  });

  it("end with what they are aborted with", async () => {
    const port = await listen(createTcpServer(() => {}));
    const abort = new AbortController();
    const sending = failure(post(trusting(), `http://127.0.0.1:${port}/`, { signal: abort.signal }));
    const reason = new Error("enough");

    abort.abort(reason);

    expect(await sending).to.equal(reason);
  });

  it("are not sent when somebody objects once there is a connection", async () => {
    const port = await startServer();
    const objection = new Error("no longer");

    const error = await failure(
      post(trusting(), `http://127.0.0.1:${port}/`, {
        beforeSending: () => {
          throw objection;
        },
      }),
    );

    expect(error).to.equal(objection);
    expect(received).to.deep.equal([]);
  });

  it("keep no more than 64 KiB of an answer", async () => {
    const port = await startServer(({ url }, response) =>
      response.end(Buffer.alloc(url === "/fits" ? 65_536 : 65_537)),
    );

    const fits = await post(trusting(), `http://127.0.0.1:${port}/fits`);
    const tooLong = await post(trusting(), `http://127.0.0.1:${port}/`);

    expect(fits.body?.length).to.equal(65_536);
    expect(tooLong).to.include({ status: 200, body: undefined });
  });

  it("keep as much of an answer as is asked for", async () => {
    const port = await startServer(({ url }, response) => response.end(url?.slice(1)));

    const fits = await post(trusting(), `http://127.0.0.1:${port}/abc`, { mostBytes: 3 });
    const tooLong = await post(trusting(), `http://127.0.0.1:${port}/abcd`, { mostBytes: 3 });

    expect(fits.body?.toString()).to.equal("abc");
    expect(tooLong.body).to.equal(undefined);
  });

  it("do not wait for the end of an answer that has none", async () => {
    const port = await startServer((_, response) => {
      const more = () => response.write(Buffer.alloc(65_536), () => response.destroyed || more());
      more();
    });

    const { status, body } = await post(trusting(), `http://127.0.0.1:${port}/`, { timeoutMs: 60_000 });

    expect({ status, body }).to.deep.equal({ status: 200, body: undefined });
  });

  it("take no compressed answer apart, which could be a thousand times as long", async () => {
    const compressed = gzipSync(Buffer.alloc(10_000_000));
    const port = await startServer((_, response) =>
      response.writeHead(200, { "content-encoding": "gzip" }).end(compressed),
    );

    const { body } = await post(trusting(), `http://127.0.0.1:${port}/`);

    expect(body?.equals(compressed)).to.equal(true);
    expect(received[0]?.headers).not.to.have.property("accept-encoding");
  });

  it("take headers without end for no answer", async () => {
    const port = await listen(
      createTcpServer((socket) => {
        socket.on("error", () => {});
        socket.write(`HTTP/1.1 200 OK\r\nx-long: ${"x".repeat(1_000_000)}`);
      }),
    );

    const error = await failure(post(trusting(), `http://127.0.0.1:${port}/`));

    expect(error).to.include({ code: "unreachable", unsent: false });
  });

  it("speak HTTP only, whatever the other side would like to speak", async () => {
    const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n";
    const port = await listen(createTcpServer((socket) => socket.on("error", () => {}).write(switching)));

    const error = await failure(post(trusting(), `http://127.0.0.1:${port}/`));

    expect(error).to.include({ code: "unreachable", unsent: false });
  });

  for (const method of ["GET", "PUT", "PATCH", "DELETE"] as const) {
    it(`are sent with the method ${method}, with a body and without`, async () => {
      const port = await startServer();

      await post(trusting(), `http://127.0.0.1:${port}/`, { method, body: Buffer.from("a body") });
      await post(trusting(), `http://127.0.0.1:${port}/`, { method, body: undefined });

      expect(received.map((each) => [each.method, each.body])).to.deep.equal([
        [method, "a body"],
        [method, ""],
      ]);
      expect(received.map(({ headers }) => headers["transfer-encoding"])).to.deep.equal([undefined, undefined]);
    });
  }

  it("take an answer that breaks off for none", async () => {
    const port = await startServer((_, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("part", () => response.destroy());
    });

    expect(await failure(post(trusting(), `http://127.0.0.1:${port}/`))).to.be.instanceOf(OutboundError);
  });

  it("take what is no HTTP for no answer", async () => {
    const port = await listen(createTcpServer((socket) => socket.on("error", () => {}).end("hello\n")));

    expect(await failure(post(trusting(), `http://127.0.0.1:${port}/`))).to.be.instanceOf(OutboundError);
  });

  (certificate === undefined ? describe.skip : describe)("over TLS", () => {
    const { cert = Buffer.alloc(0), key = Buffer.alloc(0) } = certificate ?? {};
    const startTls = () =>
      listen(
        createTlsServer(
          { cert, key },
          noting((_, response) => response.end("ok")),
        ),
      );
    const { resolve } = resolving(["127.0.0.1"]);

    it("are sent to a server that a given authority vouches for, by its name or address", async () => {
      const port = await startTls();
      const outbound = trusting({ certificateAuthorities: cert.toString(), resolve });

      const byName = await post(outbound, `https://localhost:${port}/`);
      const byAddress = await post(outbound, `https://127.0.0.1:${port}/`);

      expect([byName.status, byAddress.status]).to.deep.equal([200, 200]);
    });

    it("are not sent to a server that nobody vouches for", async () => {
      const port = await startTls();

      const error = await failure(post(trusting({ resolve }), `https://localhost:${port}/`));

      expect(error.message).to.match(/self.signed certificate/);
      expect(received).to.deep.equal([]);
    });

    it("are not sent to it either where Node is told not to look", async () => {
      const port = await startTls();
      process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
      try {
        const error = await failure(post(trusting({ resolve }), `https://localhost:${port}/`));

        expect(error.message).to.match(/self.signed certificate/);
        expect(received).to.deep.equal([]);
      } finally {
        delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
      }
    });

    it("trust the authority that a single request names", async () => {
      const port = await startTls();

      const { status } = await post(trusting(), `https://127.0.0.1:${port}/`, {
        certificateAuthorities: cert.toString(),
      });

      expect(status).to.equal(200);
    });

    it("trust no other authority than the one that a single request names", async () => {
      const port = await startTls();
      const other = makeCertificate();
      const outbound = trusting({ certificateAuthorities: cert.toString() });

      const error = await failure(
        post(outbound, `https://127.0.0.1:${port}/`, { certificateAuthorities: other?.cert.toString() }),
      );
      other?.remove();

      expect(error).to.include({ code: "unreachable", unsent: true });
      expect(received).to.deep.equal([]);
    });

    for (const text of ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]) {
      it(`trust nobody for ${JSON.stringify(text)}`, async () => {
        const port = await startTls();

        const error = await failure(post(trusting(), `https://127.0.0.1:${port}/`, { certificateAuthorities: text }));

        expect(error).to.be.instanceOf(OutboundError).and.include({ unsent: true });
        expect(received).to.deep.equal([]);
      });
    }

    it("are not sent to a server with the certificate of another one", async () => {
      const port = await startTls();
      const outbound = trusting({ certificateAuthorities: cert.toString(), resolve });

      const error = await failure(post(outbound, `https://other.example.com:${port}/`));

      expect(error).to.be.instanceOf(OutboundError);
      expect(error.message).to.include("altnames");
      expect(received).to.deep.equal([]);
    });
  });
});
