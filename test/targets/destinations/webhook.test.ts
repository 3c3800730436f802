import { createHmac } from "node:crypto";
import { BlockList } from "node:net";
import { expect } from "chai";
import { Outbound } from "../../../src/outbound/outbound.ts";
import type { Site } from "../../../src/targets/destinations/destination.ts";
import { webhook } from "../../../src/targets/destinations/webhook.ts";
import { TargetError } from "../../../src/targets/target-error.ts";
import { Receiver } from "../../harness/receiver.ts";
import { answers, breaksOff, cutsShort, hangs, redirectsTo, type Trouble } from "../../harness/trouble.ts";

const allowed = new BlockList();
allowed.addSubnet("127.0.0.0", 8);
const writer = webhook.open({ outbound: new Outbound({ allowed }) });

const about = { linkId: "l", secretId: "s", key: "DB_PASSWORD", environment: "production" };
const entry = { ...about, version: 3, value: "the value" };
const never = new AbortController().signal;

const site = (url: string, given: Partial<Pick<Site, "config" | "credentials">> = {}): Site => ({
  config: { url, headers: {}, ...given.config },
  credentials: given.credentials ?? {},
  owned: false,
  own: async () => {},
});

async function failureOf(work: Promise<void>): Promise<TargetError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof TargetError) return error;
    throw error;
  }
  throw new Error("it did not fail");
}

describe("The destination webhook", () => {
  let receiver: Receiver;

  beforeEach(async () => {
    receiver = await Receiver.start();
  });

  afterEach(() => receiver.stop());

  it("posts the event with the value and what it is of", async () => {
    await writer.write(entry, site(receiver.url()), never);

    expect(receiver.requests.map(({ body }) => body)).to.deep.equal([
      {
        event: "secret.sync",
        secret_id: "s",
        key: "DB_PASSWORD",
        environment: "production",
        link_id: "l",
        version: 3,
        value: "the value",
      },
    ]);
    expect(receiver.requests[0]?.headers["content-type"]).to.equal("application/json");
  });

  it("posts a purge without a value", async () => {
    await writer.remove(about, site(receiver.url()), never);

    expect(receiver.requests[0]?.body).to.deep.equal({
      event: "secret.purge",
      secret_id: "s",
      key: "DB_PASSWORD",
      environment: "production",
      link_id: "l",
    });
  });

  it("signs what it sends, so that the receiver can tell who has sent it and when", async () => {
    await writer.write(entry, site(receiver.url(), { credentials: { signing_secret: "shared" } }), never);

    const [request] = receiver.requests;
    const [, seconds, signature] =
      /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(request?.headers["x-holdfast-signature"])) ?? [];
    const expected = createHmac("sha256", "shared").update(`${seconds}.${request?.text}`).digest("hex");
    expect(signature).to.equal(expected);
    expect(Math.abs(Date.now() / 1000 - Number(seconds))).to.be.below(60);
  });

  it("sends the headers of the config, and those of the credentials in their place", async () => {
    const config = { headers: { "x-tenant": "t", Authorization: "none" } };
    await writer.write(
      entry,
      site(receiver.url(), { config, credentials: { headers: { authorization: "Bearer b" } } }),
      never,
    );

    expect(receiver.requests[0]?.headers).to.include({ "x-tenant": "t", authorization: "Bearer b" });
    expect(receiver.requests[0]?.headers).not.to.have.property("x-holdfast-signature");
  });

  for (const [what, trouble, code, message] of [
    ["500", answers(500, "the value is wrong: hunter2"), "refused", "the webhook answered 500"],
    ["404", answers(404), "refused", "the webhook answered 404"],
    [
      "a redirect",
      redirectsTo("http://127.0.0.1:1/"),
      "refused",
      "the webhook answered 307; redirects are not followed",
    ],
    ["nothing", breaksOff({ done: true }), "unreachable", "the webhook: "],
    ["half an answer", cutsShort, "unreachable", "the webhook: "],
  ] as readonly (readonly [string, Trouble, string, string])[]) {
    it(`does not take ${what} for a confirmation, and tells nothing of the answer but its status`, async () => {
      receiver.behave(() => trouble);

      const error = await failureOf(writer.write(entry, site(receiver.url()), never));

      expect(error.code).to.equal(code);
      expect(error.message.startsWith(message)).to.equal(true, error.message);
      expect(error.message).not.to.include("hunter2").and.not.to.include("the value");
    });
  }

  it("says for how long it was asked to wait", async () => {
    receiver.behave(() => answers(429, "", { "retry-after": "120" }));

    const error = await failureOf(writer.write(entry, site(receiver.url()), never));

    expect(error.retryAfterMs).to.equal(120_000);
  });

  it("ends soon when it is told to", async () => {
    receiver.behave(() => hangs({ done: true }));
    const ending = new AbortController();
    const writing = writer.write(entry, site(receiver.url()), ending.signal);
    await receiver.received(1);

    ending.abort(new Error("enough"));

    expect(await writing.catch((error: Error) => error.message)).to.equal("enough");
  });

  it("does not send to networks that are not public, unless they are allowed", async () => {
    const strict = webhook.open({ outbound: new Outbound({ allowed: new BlockList() }) });

    const error = await failureOf(strict.write(entry, site(receiver.url()), never));

    expect(error).to.include({ permanent: true, unchanged: true });
    expect(receiver.requests).to.deep.equal([]);
  });

  it("tells places apart by their URL, however that is written", () => {
    const place = (url: string) => webhook.place({ url, headers: {} });

    expect(place("https://Example.com:443/a/../b")).to.deep.equal(place("https://example.com/b"));
    expect(place("https://example.com/b").name).not.to.equal(place("https://example.com/B").name);
    expect(place("https://example.com:8443/").origin).to.equal("https://example.com:8443");
  });
});
