import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { LinkService } from "../../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import type { Answer } from "../../harness/client.ts";
import { disguises, dump } from "../../harness/leaks.ts";
import { useServer } from "../../harness/server.ts";
import { answers as answersWith, breaksOff } from "../../harness/trouble.ts";
import { Links, linksPath, toWebhook } from "./links.ts";

const server = useServer({ LOG_LEVEL: "trace" });
const links = new Links(server);

describe("Credentials and values of links", () => {
  links.useWorker(50);
  const secrets: Record<string, Buffer> = {};
  const told: string[] = [];
  const notified: string[] = [];

  function secret(name: string): string {
    const text = randomBytes(24).toString("base64url");
    secrets[name] = Buffer.from(text);
    return text;
  }

  before(async function () {
    this.timeout(60_000);
    const { admin } = server;
    const call = async (...request: Parameters<typeof admin.rest>): Promise<Answer> => {
      const answer = await admin.rest(...request);
      told.push(JSON.stringify([...answer.headers]), JSON.stringify(answer.body));
      return answer;
    };
    const session = await server.server.core.db.openSession("listens-too");
    session.on("notification", ({ payload = "" }) => notified.push(payload));
    await session.query("listen holdfast_sync");
    const place = await links.receiver();
    const { id } = await server.secret({ value: secret("value") });
    const credentials = { signing_secret: secret("signing secret"), headers: { authorization: secret("header") } };
    const { body: link } = await call("POST", linksPath(id), toWebhook(place.url(), { credentials }), {
      "idempotency-key": "once",
    });
    await links.synced(link);
    // Its place tells what it was sent, in every way that it has.
    place.behave(({ headers, text }) =>
      answersWith(500, `${JSON.stringify(headers)}${text}`, { "x-echo": String(headers.authorization) }),
    );
    await call("PUT", `/api/v1/secrets/${id}`, { value: secret("next value") });
    await links.failed(link);
    place.behave(() => breaksOff({ done: true }));
    await call("POST", `/api/v1/secrets/${id}/force-sync`, {});
    await links.failed(link);
    await call("DELETE", `${linksPath(id, link.id)}?purge=true`);
    const put = (body: unknown) => call("PUT", linksPath(id, link.id), body);
    await put({ credentials: { signing_secret: secret("other") } });
    await put({ credentials: { signing_secret: [secret("mistyped")] } });
    await put({ credentials: secret("not an object") });
    await put({ credentials: { token: secret("unknown name") } });
    await put({ credentials: { [secret("as a name")]: "x" } });
    await put(`{"credentials": {"signing_secret": "${secret("no json")}"}`);
    await put({ credentials: { headers: { authorization: `${secret("too long")}${"x".repeat(33_000)}` } } });
    await put({ config: { url: "https://elsewhere.example.com" } });
    await call("POST", linksPath(id), {
      integration: "ftp",
      config: {},
      credentials: { p: secret("unknown integration") },
    });
    const rpc = (name: string) => ({ signing_secret: secret(name) });
    const grpc = admin.grpc(LinkService);
    for (const { id: secretId, url, credentials: sent } of [
      { id, url: place.url("/rpc"), credentials: rpc("rpc") },
      { id: "x", url: "", credentials: rpc("rpc, refused") },
    ]) {
      const request = { id: secretId, integration: "webhook", config: { url }, credentials: sent };
      await grpc.createLink(request, admin.metadata()).then(
        (answer) => told.push(JSON.stringify(answer.config)),
        (error: unknown) => told.push(JSON.stringify(error), String(error)),
      );
    }
    grpc.close();
    for (const path of [linksPath(id), linksPath(id, link.id), `/api/v1/secrets/${id}/sync-status`])
      await call("GET", path);
    await call("GET", "/api/v1/audit-logs?per_page=100");
    await session.end();
  });

  function expectNone(text: string): void {
    for (const [name, value] of Object.entries(secrets)) {
      if (name === "as a name") continue;
      for (const disguise of disguises(value)) expect(text.includes(disguise), name).to.equal(false);
    }
  }

  it("are in no answer and in no audit event", () => {
    expect(told.join("\n")).to.include("secret.sync").and.to.include("the webhook answered 500");
    expectNone(told.join("\n"));
  });

  it("are in no log, at its most talkative", () => {
    expect(server.log).to.include("link not written").and.to.include("UpdateLink").and.to.include("[redacted]");
    expectNone(server.log);
  });

  it("are in no column of any table", async function () {
    this.timeout(60_000);
    const everything = await dump(server);

    expect(everything).to.include("the webhook answered 500");
    expectNone(everything);
  });

  it("are not in what workers are told", () => {
    expect(notified).not.to.have.length(0);
    expect(new Set(notified)).to.deep.equal(new Set([""]));
  });

  it("are sealed for their link: moved to another one they do not open", async () => {
    const place = await links.receiver();
    const one = await links.of(
      toWebhook(place.url("/one"), { sync_enabled: false, credentials: { signing_secret: "s" } }),
    );
    const { body: two } = await links.post(one.secret_id, toWebhook(place.url("/two"), { sync_enabled: false }));
    await server.sql(
      "update secret_link set credentials = (select credentials from secret_link where id = $1) where id = $2",
      [one.id, two.id],
    );

    await links.put(two, { sync_enabled: true });

    expect((await links.failed(two)).last_error.code).to.equal("invalid");
    expect(place.requests).to.deep.equal([]);
  });
});
