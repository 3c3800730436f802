import { once } from "node:events";
import { type AddressInfo, BlockList, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer as createTlsServer, connect as tlsConnect } from "node:tls";
import { expect } from "chai";
import { Outbound } from "../../src/outbound/outbound.ts";
import { OutboundError } from "../../src/outbound/outbound-error.ts";
import { makeCertificate } from "../server/wire/certificate.ts";
import { loopback, resolving } from "./network.ts";

const certificate = makeCertificate();
after(() => certificate?.remove());
if (certificate === undefined) console.log("TLS over connections is not tested: this machine has no openssl");

const none = new BlockList();
const onlyFirst = new BlockList();
onlyFirst.addAddress("127.0.0.1", "ipv4");

describe("Outbound connections", () => {
  const servers: Server[] = [];
  const sockets = new Set<Socket>();
  let accepted: number;
  beforeEach(() => {
    accepted = 0;
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    for (const server of servers.splice(0)) server.close();
  });

  async function listen(server: Server): Promise<number> {
    servers.push(server);
    server.on("connection", (socket: Socket) => {
      accepted += 1;
      sockets.add(socket.on("error", () => {}));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }

  const connect = (outbound: Outbound, fields: Partial<Parameters<Outbound["connect"]>[0]>) =>
    outbound.connect({
      host: "127.0.0.1",
      port: 1,
      timeoutMs: 10_000,
      signal: new AbortController().signal,
      ...fields,
    });
  const failure = (connecting: Promise<Socket>) =>
    connecting.then(
      () => expect.fail("it was connected"),
      (error: unknown) => error as OutboundError,
    );
  const trusting = (fields = {}) => new Outbound({ allowed: loopback, ...fields });

  it("carry what both sides say", async () => {
    const port = await listen(createServer((socket) => socket.end("220 ready")));

    const socket = await connect(trusting(), { port });
    // Whoever speaks first is heard also by somebody who listens late.
    await sleep(100);
    const [said] = await once(socket, "data");

    expect(String(said)).to.equal("220 ready");
  });

  const refused = [
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "0177.0.0.1",
    "2130706433",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "0.0.0.0",
    "::",
    "0",
    "fe80::1%lo",
  ];
  for (const host of refused) {
    it(`are not made to ${host}`, async () => {
      const port = await listen(createServer());

      const error = await failure(connect(new Outbound({ allowed: none }), { host, port }));

      // Some are names that mean nothing, on some machines.
      expect(error).to.be.instanceOf(OutboundError).and.include({ unsent: true });
      expect(error.message).to.match(/is at no address that may be sent to$|cannot be resolved/);
      expect(accepted).to.equal(0);
    });
  }

  for (const host of ["/tmp/a.socket", "./a.socket", "\0abstract", "unix:/tmp/a.socket", "[::1]", " "]) {
    it(`are not made to what is no host, as ${JSON.stringify(host)}`, async () => {
      const error = await failure(connect(trusting(), { host }));

      expect(error).to.be.instanceOf(OutboundError).and.include({ unsent: true });
    });
  }

  it("go to the address that was checked, also when the name means another one a moment later", async () => {
    const port = await listen(createServer());
    const { asked, resolve } = resolving(["127.0.0.1"], ["127.0.0.2"]);
    const outbound = new Outbound({ allowed: onlyFirst, resolve });

    const first = await connect(outbound, { host: "rebinding.example.com", port });
    const second = await failure(connect(outbound, { host: "rebinding.example.com", port }));

    expect(first.remoteAddress).to.equal("127.0.0.1");
    expect(second).to.include({ permanent: true });
    expect(asked).to.deep.equal(["rebinding.example.com", "rebinding.example.com"]);
    expect(accepted).to.equal(1);
  });

  it("go to those addresses of a name only that may be sent to", async () => {
    const port = await listen(createServer());
    const { resolve } = resolving(["10.0.0.1", "127.0.0.2", "::ffff:127.0.0.1", "127.0.0.1", "fd00::1"]);
    const others = new BlockList();
    others.addAddress("127.0.0.3", "ipv4");

    const connected = await connect(new Outbound({ allowed: onlyFirst, resolve }), { host: "a.example.com", port });
    const error = await failure(connect(new Outbound({ allowed: others, resolve }), { host: "a.example.com", port }));

    expect(connected.remoteAddress).to.match(/127\.0\.0\.1$/);
    expect(error).to.include({ permanent: true, message: "a.example.com is at no address that may be sent to" });
  });

  for (const port of [-1, 65_536, Number.NaN]) {
    it(`are not made to the port ${port}`, async () => {
      expect(await failure(connect(trusting(), { port }))).to.include({ code: "invalid", unsent: true });
    });
  }

  it("tell why there is none", async () => {
    const port = await listen(createServer());
    servers[0]?.close();

    const error = await failure(connect(trusting(), { port }));

    expect(error).to.include({ code: "unreachable", unsent: true });
    expect(error.message).to.include("ECONNREFUSED");
  });

  it("end in time with a name server that says nothing", async () => {
    const outbound = trusting({ resolve: () => new Promise(() => {}) });

    const error = await failure(connect(outbound, { host: "example.com", timeoutMs: 100 }));

    expect(error).to.include({ code: "timed_out", message: "no connection within 0.1 s", unsent: true });
  });

  it("outlast the time that there was for connecting", async () => {
    const port = await listen(createServer((socket) => socket.pipe(socket)));

    const socket = await connect(trusting(), { port, timeoutMs: 200 });
    await sleep(300);
    socket.write("still there");

    expect(String(await once(socket, "data"))).to.equal("still there");
  });

  it("end with what they are aborted with, before", async () => {
    const abort = new AbortController();
    const outbound = trusting({ resolve: () => new Promise(() => {}) });
    const connecting = failure(connect(outbound, { host: "example.com", signal: abort.signal }));
    const reason = new Error("enough");

    abort.abort(reason);

    expect(await connecting).to.equal(reason);
  });

  it("end when they are aborted, afterwards", async () => {
    const port = await listen(createServer());
    const abort = new AbortController();
    const socket = await connect(trusting(), { port, signal: abort.signal });

    abort.abort();

    await once(socket, "close");
    expect(socket.destroyed).to.equal(true);
  });

  it("that break off while nobody looks are no reason to end the program", async () => {
    const port = await listen(createServer((socket) => void setTimeout(() => socket.resetAndDestroy(), 50)));

    const socket = await connect(trusting(), { port });
    socket.resume();

    await new Promise((resolve) => socket.once("close", resolve));
    expect(socket.errored).to.include({ code: "ECONNRESET" });
  });

  it("end when more is read than anybody would have to say", async () => {
    const port = await listen(createServer((socket) => flood(socket)));
    const socket = await connect(trusting(), { port });

    socket.resume();

    expect(await failureOf(socket)).to.equal("more than 1048576 bytes came");
  });

  (certificate === undefined ? describe.skip : describe)("under TLS", () => {
    const { cert = Buffer.alloc(0), key = Buffer.alloc(0) } = certificate ?? {};
    const authorities = cert.toString();

    /** As a driver of a database does it: in the clear first, and then no longer. */
    const secured = async (outbound: Outbound, port: number, host: string, own?: string) => {
      const socket = await connect(outbound, { host: "127.0.0.1", port });
      return tlsConnect({ ...outbound.tlsTo(host, own), socket });
    };

    it("verify the name of the other side, or its address", async () => {
      const port = await listen(createTlsServer({ cert, key }));

      for (const host of ["localhost", "127.0.0.1"]) {
        const socket = await secured(trusting(), port, host, authorities);
        await once(socket, "secureConnect");
        expect(socket.authorized).to.equal(true);
      }
      for (const host of ["other.example.com", "127.0.0.2"]) {
        const socket = await secured(trusting(), port, host, authorities);
        expect(await failureOf(socket)).to.include("altnames");
      }
    });

    it("name the other side, which may have several names, but not by an address", async () => {
      const named: unknown[] = [];
      const port = await listen(createTlsServer({ cert, key }, ({ servername }) => named.push(servername)));

      for (const host of ["localhost", "127.0.0.1"]) {
        const socket = await secured(trusting(), port, host, authorities);
        await once(socket, "session");
      }

      expect(named).to.deep.equal(["localhost", false]);
    });

    it("trust the authorities of all, unless some are named", async () => {
      const port = await listen(createTlsServer({ cert, key }));
      const outbound = trusting({ certificateAuthorities: authorities });

      const usual = await secured(outbound, port, "localhost");
      await once(usual, "secureConnect");
      const stranger = await secured(trusting(), port, "localhost");

      expect(await failureOf(stranger)).to.match(/self.signed certificate/);
    });

    it("end when more is read than anybody would have to say", async () => {
      const port = await listen(createTlsServer({ cert, key }, (socket) => flood(socket)));
      const socket = await secured(trusting(), port, "localhost", authorities);

      socket.resume();

      expect(await failureOf(socket)).to.equal("more than 1048576 bytes came");
    });
  });
});

/** What a connection ends with. */
const failureOf = (socket: Socket) =>
  new Promise<string>((resolve) => socket.once("error", ({ message }) => resolve(message)));

/** Says something without end. */
function flood(socket: Socket): void {
  socket.on("error", () => {});
  const more = () => {
    if (!socket.destroyed) socket.write(Buffer.alloc(65_536), more);
  };
  more();
}
