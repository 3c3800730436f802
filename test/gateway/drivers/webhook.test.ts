import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import { type AddressInfo, BlockList } from "node:net";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { DriverError } from "../../../src/gateway/drivers/driver.ts";
import { WebhookDriver } from "../../../src/gateway/drivers/webhook.ts";
import { Outbound } from "../../../src/outbound/outbound.ts";
import { assignmentOf, TestPermit } from "../assignment.ts";

const loopback = new BlockList();
loopback.addAddress("127.0.0.1", "ipv4");

describe("The driver of webhooks", () => {
  const driver = new WebhookDriver(new Outbound({ allowed: loopback }));
  let server: Server;
  let url: string;
  let permit: TestPermit;
  let received: { readonly headers: IncomingHttpHeaders; readonly body: string }[];
  let answer: { readonly status: number; readonly body: string };
  beforeEach(async () => {
    permit = new TestPermit();
    received = [];
    answer = { status: 200, body: "" };
    server = createServer((request, response) => {
      void request.toArray().then((chunks) => {
        received.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
        response.writeHead(answer.status, { location: "/elsewhere" }).end(answer.body);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  /** As the server gives it, with what is left out filled in. */
  const assignment = (settings: JsonObject = {}, credentials: JsonObject = {}) =>
    assignmentOf({
      driver: "webhook",
      settings: { url, mode: "push", timeout_seconds: 10, headers: {}, ...settings },
      credentials: { headers: {}, ...credentials },
    });
  const failure = (applying: Promise<unknown>) =>
    applying.then(
      () => expect.fail("it succeeded"),
      (error: unknown) => error as DriverError,
    );
  const bodies = () => received.map(({ body }) => JSON.parse(body));
  const about = {
    secret_id: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f57",
    key: "DB_PASSWORD",
    environment: "production",
    task_id: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55",
    attempt: 1,
  };

  it("pushes the value", async () => {
    const minted = await driver.apply(assignment(), permit);

    expect(minted).to.equal(undefined);
    expect(bodies()).to.deep.equal([{ event: "rotation.apply", ...about, value: "the-candidate-value" }]);
    expect(received[0]?.headers).to.include({ "content-type": "application/json" });
    expect(received[0]?.headers["user-agent"]).to.match(/^holdfast-gateway\//);
    expect(received[0]?.headers).not.to.have.property("x-holdfast-signature");
  });

  it("asks whether a value is in use by an event of its own", async () => {
    await driver.verify(assignment(), permit);

    expect(bodies()).to.deep.equal([{ event: "rotation.verify", ...about, value: "the-candidate-value" }]);
  });

  it("takes the value that the target makes, without saying one", async () => {
    answer = { status: 201, body: '{"value":"minted there","more":1}' };

    const minted = await driver.apply(assignment({ mode: "mint" }), permit);

    expect(minted).to.equal("minted there");
    expect(bodies()).to.deep.equal([{ event: "rotation.apply", ...about }]);
  });

  for (const body of ["", "[]", "{}", '{"value":""}', '{"value":5}', "minted", `{"value":"${"x".repeat(65_536)}"}`]) {
    it(`takes no value out of ${body.slice(0, 20) || "nothing"}`, async () => {
      answer = { status: 200, body };

      const error = await failure(driver.apply(assignment({ mode: "mint" }), permit));

      expect(error).to.include({ permanent: true, message: "the webhook answered no value" });
    });
  }

  it("signs what it sends, with the time", async () => {
    const before = Math.floor(Date.now() / 1000);

    await driver.apply(assignment({}, { signing_secret: "key" }), permit);

    const [{ headers, body } = { headers: {}, body: "" }] = received;
    const [, time = "", signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers["x-holdfast-signature"])) ?? [];
    expect(signature).to.equal(createHmac("sha256", "key").update(`${time}.${body}`).digest("hex"));
    expect(Number(time)).to.be.within(before, Math.ceil(Date.now() / 1000));
  });

  it("sends the headers of settings and of credentials, of which the latter win, and its own, which nobody replaces", async () => {
    const settings = { headers: { "X-Tenant": "blue", Authorization: "none", "User-Agent": "other" } };
    const credentials = { signing_secret: "key", headers: { authorization: "Bearer t", "x-holdfast-signature": "no" } };

    await driver.apply(assignment(settings, credentials), permit);

    expect(received[0]?.headers).to.include({ "x-tenant": "blue", authorization: "Bearer t" });
    expect(received[0]?.headers["user-agent"]).to.match(/^holdfast-gateway\//);
    expect(received[0]?.headers["x-holdfast-signature"]).to.match(/^t=/);
  });

  const statuses: [number, boolean][] = [
    [301, true],
    [307, true],
    [400, true],
    [401, true],
    [404, true],
    [408, false],
    [409, true],
    [429, false],
    [500, false],
    [503, false],
  ];
  for (const [status, permanent] of statuses) {
    it(`takes ${status} for a failure that ${permanent ? "is" : "is not"} permanent, and tells nothing of the answer`, async () => {
      answer = { status, body: "hunter2" };

      const error = await failure(driver.apply(assignment(), permit));

      expect(error.permanent).to.equal(permanent);
      expect(error.message).to.include(`answered ${status}`).and.not.include("hunter2");
      expect(received.length).to.equal(1);
    });
  }

  for (const status of [200, 201, 202, 204, 299]) {
    it(`takes ${status} for done`, async () => {
      answer = { status, body: "" };

      await driver.apply(assignment(), permit);
    });
  }

  it("sends nothing into networks that are not allowed, and does not try again", async () => {
    const error = await failure(driver.apply(assignment({ url: url.replace("127.0.0.1", "127.0.0.2") }), permit));

    expect(error).to.include({ permanent: true });
  });

  it("tries again later when nobody answers", async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));

    const error = await failure(driver.apply(assignment(), permit));

    expect(error).to.include({ permanent: false });
    expect(error.message).to.include("ECONNREFUSED");
  });

  it("does not understand settings of another kind", async () => {
    const error = await failure(driver.apply(assignment({ mode: "pull" }), permit));

    expect(error).to.include({ permanent: true });
  });

  it("sends nothing once the permit has ended", async () => {
    permit.end();

    await failure(driver.apply(assignment(), permit));

    expect(received).to.deep.equal([]);
  });

  it("asks for the permit once more right before it sends, by the clock and not by the signal", async () => {
    const stopped = { signal: new AbortController().signal, check: () => expect.fail("the lease has ended meanwhile") };

    await failure(driver.apply(assignment(), stopped));

    expect(received).to.deep.equal([]);
  });
});
