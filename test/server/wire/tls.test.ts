import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { Agent, request as httpsRequest } from "node:https";
import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../../gen/ts/health/v1/health_pb.ts";
import { SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { createGrpcClient } from "../../../src/client/grpc-client.ts";
import { type Handler, tlsListener } from "../../../src/server/wire/listener.ts";
import { useServer } from "../../harness/server.ts";
import { makeCertificate } from "./certificate.ts";
import { parseAnswers, request } from "./raw-http.ts";

const certificate = makeCertificate();
const ca = certificate?.cert ?? Buffer.alloc(0);
after(() => certificate?.remove());

const describeWithOpenssl = certificate === undefined ? describe.skip : describe;
if (certificate === undefined) console.log("TLS is not tested: this machine has no openssl to make a certificate with");

describeWithOpenssl("The TLS listener", () => {
  // The harness logs in over cleartext, so TLS is a replica's.
  const server = useServer();
  let port: number;
  before(async () => {
    const { certFile = "", keyFile = "" } = certificate ?? {};
    const replica = await server.startReplica({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile });
    port = replica.address?.port ?? 0;
  });
  const bearer = () => ({ authorization: `Bearer ${server.admin.token}` });

  /** What comes back for `bytes` on a TLS connection, until the server closes it. */
  async function exchange(bytes: Buffer | string, options: object = {}): Promise<string> {
    const socket = connectTls({ host: "127.0.0.1", port, ca, ...options });
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", () => {});
    await once(socket, "secureConnect");
    socket.write(bytes);
    await once(socket, "close");
    return Buffer.concat(chunks).toString();
  }

  it("speaks HTTP/1.1 to whoever asks for it, and to whoever asks for nothing", async () => {
    for (const options of [{ ALPNProtocols: ["http/1.1"] }, {}]) {
      const [answer] = parseAnswers(await exchange(request("GET", "/api/v1/health"), options));

      expect(answer?.status).to.equal(200);
      expect(answer?.headers["strict-transport-security"]).to.equal("max-age=31536000");
    }
  });

  it("speaks HTTP/2 by ALPN, and prefers it", async () => {
    const session = connectHttp2(`https://127.0.0.1:${port}`, { ca });
    const stream = session.request({ ":path": "/api/v1/health" });
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
    const socket = connectTls({ host: "127.0.0.1", port, ca, ALPNProtocols: ["http/1.1", "h2"] });
    await once(socket, "secureConnect");

    expect(headers[":status"]).to.equal(200);
    expect(session.alpnProtocol).to.equal("h2");
    expect(socket.alpnProtocol).to.equal("h2");
    session.destroy();
    socket.destroy();
  });

  it("serves gRPC to grpc-js, and Connect", async () => {
    const { id } = await server.secret({ value: "over TLS" });
    const metadata = new Metadata();
    metadata.set("authorization", bearer().authorization);
    const grpc = createGrpcClient(SecretService, `localhost:${port}`, credentials.createSsl(ca));
    const transport = createConnectTransport({
      baseUrl: `https://127.0.0.1:${port}`,
      httpVersion: "1.1",
      nodeOptions: { ca },
    });

    const overGrpc = await grpc.getSecret({ id }, metadata);
    const refused = await grpc.getSecret({ id }).catch((error: unknown) => error);
    grpc.close();
    const overConnect = await createClient(SecretService, transport).getSecret({ id }, { headers: bearer() });

    expect([overGrpc.value, overConnect.value]).to.deep.equal(["over TLS", "over TLS"]);
    expect((refused as ServiceError).code).to.equal(16);
  });

  it("answers what is no HTTP in the specified shape, and a missing Host", async () => {
    for (const bytes of ["nonsense\r\n\r\n", "GET /api/v1/health HTTP/1.1\r\nConnection: close\r\n\r\n"]) {
      const [answer] = parseAnswers(await exchange(bytes));

      expect(answer?.status).to.equal(400);
      expect(JSON.parse(answer?.body ?? "").error.code).to.equal("VALIDATION_ERROR");
    }
  });

  it("refuses versions before TLS 1.2", async () => {
    const socket = connectTls({ host: "127.0.0.1", port, ca, minVersion: "TLSv1", maxVersion: "TLSv1.1" });

    const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];

    expect(error.code).to.match(/^ERR_SSL|ECONNRESET/);
  });

  it("survives callers that speak cleartext or leave in the middle of the handshake", async () => {
    for (const bytes of ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01", ""]) {
      const socket = connectTcp(port, "127.0.0.1");
      socket.on("error", () => {});
      await once(socket, "connect");
      socket.end(bytes);
      socket.resume();
      await once(socket, "close");
    }

    const [answer] = parseAnswers(await exchange(request("GET", "/api/v1/health")));

    expect(answer?.status).to.equal(200);
  });
});

describeWithOpenssl("A TLS listener that is closed", () => {
  const hello: Handler = (_, response) => {
    setTimeout(() => response.end("done"), 100);
  };
  const start = async (given?: Parameters<typeof tlsListener>[2]) => {
    const { cert, key } = certificate as NonNullable<typeof certificate>;
    const listener = tlsListener(hello, { cert, key }, given);
    const { port } = await listener.listen("127.0.0.1", 0);
    return { listener, port };
  };

  it("finishes what runs and waits for neither idle connections nor unfinished handshakes", async () => {
    const { listener, port } = await start();
    const halfOpen = connectTcp(port, "127.0.0.1");
    halfOpen.on("error", () => {});
    const agent = new Agent({ keepAlive: true, ca });
    const get = async () => {
      const call = httpsRequest({ host: "127.0.0.1", port, agent });
      call.end();
      const [answer] = (await once(call, "response")) as [NodeJS.ReadableStream];
      let body = "";
      for await (const chunk of answer) body += String(chunk);
      return body;
    };
    await get(); // leaves an idle connection
    const session = connectHttp2(`https://127.0.0.1:${port}`, { ca });
    await once(session, "connect");
    const running = get();
    await new Promise((resolve) => setTimeout(resolve, 30));

    const started = performance.now();
    await listener.close(5000);
    const tookMs = performance.now() - started;
    agent.destroy();
    session.destroy();
    halfOpen.destroy();

    expect(await running).to.equal("done");
    expect(tookMs).to.be.below(3000);
  });

  it("never waits longer than it was given", async () => {
    const { listener, port } = await start();
    const socket = connectTls({ host: "127.0.0.1", port, ca });
    socket.on("error", () => {});
    await once(socket, "secureConnect");
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n");

    const started = performance.now();
    await listener.close(200);

    expect(performance.now() - started).to.be.below(2000);
    socket.destroy();
  });

  it("and open gives up connections that are slow in the handshake or in the headers", async () => {
    const { listener, port } = await start({ headersMs: 200, requestMs: 300, idleSessionMs: 200, checkEveryMs: 25 });
    const [silent, late] = [connectTcp(port, "127.0.0.1"), connectTls({ host: "127.0.0.1", port, ca })];
    silent.on("error", () => {});
    late.on("error", () => {});
    await once(late, "secureConnect");
    late.write("GET / HTTP/1.1\r\nHost: x\r\n");
    late.resume();

    await Promise.all([once(silent, "close"), once(late, "close")]);

    await listener.close(0);
  });
});

describe("The cleartext listener", () => {
  const server = useServer();

  it("speaks HTTP/2 to whoever begins with it, for REST and gRPC on one connection", async () => {
    const session = connectHttp2(server.url);
    const rest = session.request({ ":path": "/api/v1/health" });
    const [restHead] = (await once(rest, "response")) as [Record<string, unknown>];
    const check = `/${Health.typeName}/Check`;
    const call = session.request({
      ":method": "POST",
      ":path": check,
      "content-type": "application/grpc",
      te: "trailers",
    });
    call.end(Buffer.from([0, 0, 0, 0, 0]));
    const [frame] = (await once(call, "data")) as [Buffer];
    session.destroy();

    expect(restHead[":status"]).to.equal(200);
    expect([...frame]).to.deep.equal([0, 0, 0, 0, 2, 8, Status.SERVING]);
  });
});
