import { randomBytes } from "node:crypto";
import { fromJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { RotationConfigService } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { until } from "../../faults/own-engines.ts";
import type { Answer } from "../../harness/client.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { disguises, dump } from "../../harness/leaks.ts";
import { Receiver } from "../../harness/receiver.ts";
import { useServer } from "../../harness/server.ts";
import { answers as answersWith, breaksOff } from "../../harness/trouble.ts";
import { byCommand, byWebhook, configPath, pushTo } from "./configurations.ts";

const server = useServer({ LOG_LEVEL: "trace", GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });

describe("Credentials and candidates of rotations", () => {
  const secrets: Record<string, Buffer> = {};
  const answers: string[] = [];

  function secret(name: string): string {
    const text = randomBytes(24).toString("base64url");
    secrets[name] = Buffer.from(text);
    return text;
  }

  before(async () => {
    const { admin } = server;
    const call = async (...request: Parameters<typeof admin.rest>): Promise<Answer> => {
      const answer = await admin.rest(...request);
      answers.push(JSON.stringify([...answer.headers]), JSON.stringify(answer.body));
      return answer;
    };
    const environment = "production";
    const { id } = await server.secret({ environment });
    const put = (body: unknown) => call("PUT", configPath(id), body);
    const hook = byWebhook();
    const { body: config } = await put({ ...hook, credentials: { signing_secret: secret("field") } });
    await put({ ...hook, credentials: { headers: { authorization: `Bearer ${secret("header")}` } } });
    await put({
      provider: {
        type: "gateway",
        settings: hook.provider_settings,
        credentials: { signing_secret: secret("object") },
      },
    });
    await put({ provider: { type: "magic", credentials: { signing_secret: secret("unknown provider") } } });
    await put({ provider: [secret("no provider at all")] });
    await put({ credentials: { signing_secret: [secret("mistyped")] } });
    await put({ credentials: secret("not an object") });
    await put({ ...hook, credentials: { token: secret("unknown name") } });
    await put({ provider: "generated_value", credentials: { password: secret("where none are") } });
    await put({
      ...hook,
      credentials: { signing_secret: secret("twice") },
      provider: { type: "gateway", credentials: {} },
    });
    await put(`{"credentials": {"signing_secret": "${secret("no json")}"}`);
    await put({ credentials: { signing_secret: `${secret("too long")}${"x".repeat(33_000)}` } });
    await put({ ...byCommand, credentials: { nested: { password: secret("nested") } }, interval: 0 });
    await put({ ...byCommand, credentials: { nested: { password: secret("kept") } } });
    const rpc = { id, provider: fromJson(ValueSchema, { type: "gateway", credentials: { p: secret("rpc value") } }) };
    const grpc = admin.grpc(RotationConfigService);
    for (const request of [
      rpc,
      { id, credentials: { p: secret("rpc") } },
      { id: "x", credentials: { p: secret("bad") } },
    ]) {
      await grpc.updateRotationConfig(request, admin.metadata()).then(
        ({ providerSettings }) => answers.push(JSON.stringify(providerSettings)),
        (error: unknown) => answers.push(JSON.stringify(error), String(error)),
      );
    }
    grpc.close();
    await admin.connect(RotationConfigService).updateRotationConfig({ id, credentials: { p: secret("connect") } });

    const gateway = await TestGateway.register(server, { environment });
    const path = `/api/v1/rotation/configs/${config.id}`;
    await call("POST", `${path}/execute`, { change_reason: "a reason" }, { "idempotency-key": "once" });
    const first = await gateway.claim();
    secrets["candidate"] = Buffer.from(first?.value ?? "");
    if (first !== undefined)
      await gateway.complete(first, { case: "failed", value: { message: "no", permanent: false } });
    const second = await gateway.claim();
    if (second !== undefined) await gateway.complete(second);
    await call("POST", `${path}/execute`, {});
    const third = await gateway.claim();
    secrets["next candidate"] = Buffer.from(third?.value ?? "");
    await put({ provider: "generated_value" });
    if (third !== undefined) await gateway.complete(third);
    await put({ settings: { length: 64 }, rotate_immediately: true });
    const { body: read } = await admin.rest("GET", `/api/v1/secrets/${id}`);
    secrets["generated here"] = Buffer.from(read.value);
    await put({ ...byCommand, credentials: { password: secret("there at the end") } });
    await call("POST", `${path}/execute`, {});
    await gateway.claim();
    await call("POST", `/api/v1/secrets/${id}/rotate`, { value: secret("given, and refused") });

    const receiver = await Receiver.start();
    const { id: served } = await server.secret();
    const rotate = (body: unknown = {}) => call("POST", `/api/v1/secrets/${served}/rotate`, body);
    await rotate({ value: secret("given"), change_reason: "a value that was chosen" });
    const credentials = { signing_secret: secret("signing"), headers: { authorization: secret("bearer") } };
    await call("PUT", configPath(served), { ...pushTo(receiver.url()), credentials });
    receiver.behave(({ text, headers }) => answersWith(500, `${text} ${JSON.stringify(headers)}`, { "x-echo": text }));
    for (let attempt = 1; attempt <= 3; attempt += 1) await rotate();
    receiver.behave(() => breaksOff({ done: true }));
    await rotate();
    receiver.behave(({ text, body }) => (body.event === "rotation.verify" ? answersWith(403, text) : undefined));
    await call("PUT", configPath(served), { rotate_immediately: true });
    await receiver.received(6);
    for (const { body } of receiver.requests) secrets[`candidate ${body.value}`] = Buffer.from(body.value);
    const minted = secret("minted");
    receiver.behave(() => answersWith(200, JSON.stringify({ value: minted })));
    await call("PUT", configPath(served), pushTo(receiver.url("/mint"), { mode: "mint" }));
    await until(async () => (await admin.rest("GET", configPath(served))).body.last_status !== "running");
    const { status } = await rotate();
    await receiver.stop();
    expect([status, Object.keys(secrets).filter((name) => name.startsWith("candidate ")).length]).to.deep.equal([
      200, 2,
    ]);

    for (const each of [
      configPath(served),
      `/api/v1/secrets/${served}/versions`,
      configPath(id),
      `${path}/tasks`,
      "/api/v1/admin/gateway-health",
      `/api/v1/secrets/${id}/versions`,
    ])
      await call("GET", each);
    await call("GET", "/api/v1/audit-logs?per_page=100");
  });

  function expectNone(text: string): void {
    for (const [name, value] of Object.entries(secrets)) {
      expect(value.length, name).to.be.above(20);
      for (const disguise of disguises(value)) expect(text.includes(disguise), name).to.equal(false);
    }
  }

  it("are in no answer and in no audit event", () => {
    expect(answers.join("\n")).to.include("secret.rotate").and.to.include("a reason");
    expectNone(answers.join("\n"));
  });

  it("are in no log, at its most talkative", () => {
    expect(server.log).to.include("UpdateRotationConfig").and.to.include("[redacted]");
    expectNone(server.log);
  });

  it("are in no column of any table", async function () {
    this.timeout(60_000);
    const everything = await dump(server);

    expect(everything).to.include("a reason").and.to.include("rotate-app");
    expectNone(everything);
  });

  it("are sealed for their secret and their purpose: moved elsewhere they do not open, and keep nobody else waiting", async () => {
    const gateway = await TestGateway.register(server, { environment: "moved" });
    const ids: string[] = [];
    for (let index = 0; index < 3; index += 1) {
      const { id } = await server.secret({ environment: "moved" });
      const { body } = await server.admin.rest("PUT", configPath(id), { ...byCommand, credentials: { p: "p" } });
      await server.admin.rest("POST", `/api/v1/rotation/configs/${body.id}/execute`, {});
      ids.push(id);
    }
    const [foreign, swapped, whole] = ids;
    await server.sql(
      "update rotation_config set credentials = (select credentials from rotation_config where secret_id = $1) where secret_id = $2",
      [whole, foreign],
    );
    await server.sql("update rotation_config set candidate = credentials where secret_id = $1", [swapped]);

    const assignment = await gateway.claim();
    const configs = await Promise.all(ids.map(async (id) => (await server.admin.rest("GET", configPath(id))).body));

    expect(assignment?.secretId).to.equal(whole);
    expect(configs.map(({ last_status }) => last_status)).to.deep.equal(["failed", "failed", "running"]);
    expect(configs[0].last_error.code).to.equal("refused");
  });
});
