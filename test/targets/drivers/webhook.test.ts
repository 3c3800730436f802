import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import { type AddressInfo, BlockList } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Outbound } from "../../../src/outbound/outbound.ts";
import { webhook } from "../../../src/targets/drivers/webhook.ts";
import type { TargetError } from "../../../src/targets/target-error.ts";
import { assignmentOf, TestPermit } from "./assignment.ts";

const loopback = new BlockList();
loopback.addAddress("127.0.0.1", "ipv4");

describe("The driver of webhooks", () => {
  const driver = webhook.open({ outbound: new Outbound({ allowed: loopback }) });
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
      settings: { url, mode: "push", timeout_seconds: 10, headers: {}, ...settings },
      credentials: { headers: {}, ...credentials },
    });
  const failure = (applying: Promise<unknown>) =>
    applying.then(
      () => expect.fail("it succeeded"),
      (error: unknown) => error as TargetError,
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
    expect(received[0]?.headers["user-agent"]).to.match(/^holdfast\//);
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
    expect(received[0]?.headers["user-agent"]).to.match(/^holdfast\//);
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

  it("says that nothing can have been changed when nobody was reached, or the answer refuses it", async () => {
    const unchanged: unknown[] = [];
    for (const status of [302, 400, 429, 500, 503]) {
      answer = { status, body: "" };
      unchanged.push([status, (await failure(driver.apply(assignment(), permit))).unchanged]);
    }
    const elsewhere = { url: url.replace("127.0.0.1", "127.0.0.2") };
    unchanged.push(["nobody", (await failure(driver.apply(assignment(elsewhere), permit))).unchanged]);

    expect(unchanged).to.deep.equal([
      [302, true],
      [400, true],
      [429, true],
      [500, false],
      [503, false],
      ["nobody", true],
    ]);
  });

  it("does not know what a target did that did not answer in time", async () => {
    server.removeAllListeners("request");

    const error = await failure(driver.apply(assignment({ timeout_seconds: 1 }), permit));

    expect(error).to.include({ code: "timed_out", permanent: false, unchanged: false });
  });

  it("does not know what a target made that answered no value", async () => {
    const error = await failure(driver.apply(assignment({ mode: "mint" }), permit));

    expect(error).to.include({ code: "invalid", unchanged: false });
  });

  it("knows no environment for what the server does itself", async () => {
    await driver.apply({ ...assignment(), environment: null }, permit);

    expect(bodies()[0]).to.include({ environment: null, value: "the-candidate-value" });
  });

  it("signs with another time when it sends the same again", async () => {
    await driver.apply(assignment({}, { signing_secret: "key" }), permit);
    await sleep(1100);
    await driver.apply(assignment({}, { signing_secret: "key" }), permit);

    const [first, second] = received.map(({ headers }) => headers["x-holdfast-signature"]);
    expect(bodies()[0]).to.deep.equal(bodies()[1]);
    expect(first).not.to.equal(second);
  });

  const settingsOf = (fields: JsonObject) => webhook.settings.safeParse({ url: "https://example.com/hook", ...fields });

  it("takes settings of which only the URL is required", () => {
    expect(settingsOf({}).data).to.deep.equal({
      url: "https://example.com/hook",
      mode: "push",
      timeout_seconds: 10,
      headers: {},
    });
    expect(settingsOf({ mode: null, timeout_seconds: "30", headers: null }).data).to.include({
      mode: "push",
      timeout_seconds: 30,
    });
  });

  const bad: JsonObject[] = [
    { url: "ftp://example.com" },
    { url: "https://user:password@example.com" },
    { url: "https://example.com/#part" },
    { mode: "pull" },
    { timeout_seconds: 31 },
    { timeout_seconds: 0 },
    { headers: { host: "other" } },
    { headers: { "X-Holdfast-Signature": "forged" } },
    { headers: { "x-a": "b\r\nx-c: d" } },
    { more: true },
  ];
  for (const fields of bad) {
    it(`takes no settings like ${JSON.stringify(fields)}`, () => {
      expect(settingsOf(fields).success).to.equal(false);
    });
  }

  it("makes values itself when it is to mint", () => {
    expect([webhook.mints({ mode: "mint" }), webhook.mints({ mode: "push" })]).to.deep.equal([true, false]);
  });

  it("sends nothing once the permit has ended", async () => {
    permit.end();

    await failure(driver.apply(assignment(), permit));

    expect(received).to.deep.equal([]);
  });

  it("ends with the permit, without waiting for the answer", async () => {
    server.removeAllListeners("request");
    const reason = new Error("the lease has ended");
    server.on("request", () => permit.end(reason));

    expect(await failure(driver.apply(assignment(), permit))).to.equal(reason);
  });

  it("asks for the permit once more right before it sends, by the clock and not by the signal", async () => {
    const stopped = { signal: new AbortController().signal, check: () => expect.fail("the lease has ended meanwhile") };

    await failure(driver.apply(assignment(), stopped));

    expect(received).to.deep.equal([]);
  });
});
