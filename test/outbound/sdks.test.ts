import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { type AddressInfo, BlockList } from "node:net";
import { SecretsManager } from "@aws-sdk/client-secrets-manager";
import * as kubernetes from "@kubernetes/client-node";
import { expect } from "chai";
import { awsRequestHandler } from "../../src/outbound/aws-request-handler.ts";
import { kubernetesHttpLibrary } from "../../src/outbound/kubernetes-http-library.ts";
import { Outbound } from "../../src/outbound/outbound.ts";
import { OutboundError } from "../../src/outbound/outbound-error.ts";
import { loopback, resolving } from "./network.ts";

const timeoutMs = 10_000;

interface Received {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly host: string | undefined;
  readonly body: string;
}

describe("SDKs", () => {
  let server: Server;
  let port: number;
  let answer: RequestListener;
  let received: Received[];
  beforeEach(async () => {
    received = [];
    server = createServer((request, response) => {
      const { method, url, headers } = request;
      void request.toArray().then((chunks) => {
        received.push({ method, url, host: headers.host, body: Buffer.concat(chunks).toString() });
        answer(request, response);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    port = (server.address() as AddressInfo).port;
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const never = new AbortController().signal;
  const { resolve } = resolving(["127.0.0.1"]);
  const within = new Outbound({ allowed: loopback, resolve });

  interface Sdk {
    /** Asks for something, and answers what came back. */
    read(outbound: Outbound, signal?: AbortSignal): Promise<unknown>;
    readonly json: object;
    readonly answered: unknown;
    readonly sent: Partial<Received>;
  }

  const aws: Sdk = {
    async read(outbound, signal = never) {
      const client = new SecretsManager({
        region: "eu-west-1",
        endpoint: `http://secrets.example.com:${port}`,
        credentials: { accessKeyId: "AKIAEXAMPLE", secretAccessKey: "a key" },
        requestHandler: awsRequestHandler(outbound, { timeoutMs }),
        maxAttempts: 1,
      });
      const { Name } = await client.describeSecret({ SecretId: "app/db" }, { abortSignal: signal });
      return Name;
    },
    json: { Name: "app/db" },
    answered: "app/db",
    sent: { method: "POST", url: "/", body: '{"SecretId":"app/db"}' },
  };
  const ofKubernetes: Sdk = {
    async read(outbound, signal = never) {
      const client = new kubernetes.CoreV1Api(
        kubernetes.createConfiguration({
          baseServer: new kubernetes.ServerConfiguration(`http://cluster.example.com:${port}`, {}),
          httpApi: kubernetesHttpLibrary(kubernetes, outbound, { timeoutMs, signal }),
        }),
      );
      const { data } = await client.readNamespacedSecret({ name: "db", namespace: "app" });
      return data;
    },
    json: { data: { password: "eA==" } },
    answered: { password: "eA==" },
    sent: { method: "GET", url: "/api/v1/namespaces/app/secrets/db", body: "" },
  };

  for (const [name, sdk] of Object.entries({ AWS: aws, Kubernetes: ofKubernetes })) {
    describe(`of ${name}`, () => {
      const answering = (status: number, headers: Record<string, string> = {}, body: unknown = sdk.json) => {
        answer = (_, response) => {
          response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
        };
      };
      const failure = (reading: Promise<unknown>) =>
        reading.then(
          () => expect.fail("it was answered"),
          (error: unknown) => error as OutboundError,
        );

      it("send and are answered", async () => {
        answering(200);

        expect(await sdk.read(within)).to.deep.equal(sdk.answered);
        expect(received.length).to.equal(1);
        expect(received[0]).to.include(sdk.sent);
        expect(received[0]?.host).to.match(/example\.com:\d+$/);
      });

      it("reach nothing that may not be sent to, and say so", async () => {
        answering(200);

        const error = await failure(sdk.read(new Outbound({ allowed: new BlockList(), resolve })));

        expect(error).to.be.instanceOf(OutboundError).and.include({ code: "invalid", unsent: true });
        expect(received).to.deep.equal([]);
      });

      for (const status of [301, 302, 307, 308]) {
        it(`follow no ${status}`, async () => {
          answering(status, { location: `http://127.0.0.1:${port}/elsewhere` });

          await failure(sdk.read(within));

          expect(received.length).to.equal(1);
        });
      }

      it("take no answer that is too long", async () => {
        answering(200, {}, { ...sdk.json, more: "x".repeat(65_536) });

        const error = await failure(sdk.read(within));

        expect(error).to.be.instanceOf(OutboundError);
        expect(error.message).to.equal("the answer is too long");
      });

      it("end when they are aborted", async () => {
        const abort = new AbortController();
        answer = () => abort.abort();

        expect(await failure(sdk.read(within, abort.signal))).to.include({ name: "AbortError" });
      });
    });
  }
});
