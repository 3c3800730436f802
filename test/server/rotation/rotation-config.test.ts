import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { RotationConfigService } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { useServer } from "../../harness/server.ts";
import { byCommand, byWebhook, Configurations, configKeys } from "./configurations.ts";
import { faultOf } from "./fault.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
const dayMs = 86_400_000;
const usual = { length: 32, charset: "alphanumeric", exclude_characters: "" };
const json = (value: JsonValue) => fromJson(ValueSchema, value);

describe("GetRotationConfig", () => {
  it("answers the usual configuration of a secret of which nothing was ever said", async () => {
    const secret = await server.secret();

    const config = await configurations.get(secret.id);

    expect(config).to.have.all.keys(configKeys);
    expect(config).to.deep.include({
      secret_id: secret.id,
      enabled: false,
      interval_days: null,
      provider: "generated_value",
      provider_settings: usual,
      has_credentials: false,
      gateway_environment: null,
      next_rotation: null,
      last_rotated: null,
      last_status: "never",
      last_error: null,
      consecutive_failures: 0,
      created_at: secret.created_at,
      updated_at: secret.created_at,
    });
    expect(config.id)
      .to.match(/^[0-9a-f-]{36}$/)
      .and.not.equal(secret.id);
    expect((await configurations.get(secret.id)).id).to.equal(config.id);
  });

  it("shows what was said when the secret was created, and what PUT of the secret says", async () => {
    const { id } = await server.secret({ rotation: { enabled: true, interval_days: 7 } });

    const born = await configurations.get(id);
    await server.admin.rest("PUT", `/api/v1/secrets/${id}`, { rotation: { interval_days: 9 } });
    const { body: secret } = await server.admin.rest("GET", `/api/v1/secrets/${id}`);
    const changed = await configurations.get(id);

    expect(born).to.include({ enabled: true, interval_days: 7 });
    expect(changed).to.include({ enabled: true, interval_days: 9, next_rotation: secret.rotation.next_rotation });
  });

  it("answers 404 for a secret that is not there, archived, deleted or expired", async () => {
    const [archived, deleted, expired] = [await server.secret(), await server.secret(), await server.secret()];
    await server.admin.rest("POST", `/api/v1/secrets/${archived.id}/archive`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${deleted.id}`);
    await server.sql("update secret set expires_at = now() where id = $1", [expired.id]);
    const missing = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

    for (const id of [archived.id, deleted.id, expired.id, missing, "nonsense"]) {
      for (const [verb, body] of [
        ["GET"],
        ["PUT", { enabled: true }],
        ["PUT", { rotate_immediately: true }],
      ] as const) {
        const answer = await server.admin.rest(verb, `/api/v1/secrets/${id}/rotation-config`, body);

        expect([answer.status, answer.body.error.code], `${verb} ${id}`).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
      }
    }
  });
});

describe("UpdateRotationConfig", () => {
  it("is the same state as rotation of PUT /secrets/{id}", async () => {
    const { id } = await server.secret();

    const { status, body: config } = await configurations.put(id, { enabled: true, interval_days: 5 });
    const { body: secret } = await server.admin.rest("GET", `/api/v1/secrets/${id}`);

    expect(status).to.equal(200);
    expect(config).to.have.all.keys(configKeys);
    expect(config).to.include({ enabled: true, interval_days: 5, last_status: "never", last_rotated: null });
    expect(Date.parse(config.next_rotation) - Date.now()).to.be.closeTo(5 * dayMs, 60_000);
    const { enabled, interval_days, last_rotated, next_rotation } = config;
    expect(secret.rotation).to.deep.equal({ enabled, interval_days, last_rotated, next_rotation });
    expect(secret.version).to.equal(1);
  });

  it("counts another interval from when the one before began, though the last rotation was long before that", async () => {
    const { secret } = await configurations.of({ enabled: true, interval: 30 });
    await server.sql(
      `update secret set last_rotated = now() - interval '100 days', next_rotation = next_rotation - interval '10 days'
       where id = $1`,
      [secret.id],
    );

    const { body: shorter } = await configurations.put(secret.id, { interval: 20 });
    const { body: longer } = await configurations.put(secret.id, { interval: 50 });

    expect(Date.parse(shorter.next_rotation) - Date.now()).to.be.closeTo(10 * dayMs, 60_000);
    expect(Date.parse(longer.next_rotation) - Date.now()).to.be.closeTo(40 * dayMs, 60_000);
  });

  it("reads every spelling of the interval, of the settings and of the provider", async () => {
    const settings = { length: 12 };
    const spellings: [Record<string, unknown>, Record<string, unknown>][] = [
      [{ interval_days: 7 }, { interval_days: 7 }],
      [{ interval: 7 }, { interval_days: 7 }],
      [{ rotation_interval_days: 7 }, { interval_days: 7 }],
      [{ rotationIntervalDays: "7" }, { interval_days: 7 }],
      [{ intervalDays: "30d" }, { interval_days: 30 }],
      [{ interval: "3650d" }, { interval_days: 3650 }],
      [{ interval: 1 }, { interval_days: 1 }],
      [{ settings }, { provider_settings: { ...usual, length: 12 } }],
      [{ providerSettings: { length: "12", charset: null } }, { provider_settings: { ...usual, length: 12 } }],
      [{ provider: { type: "generated_value", settings } }, { provider_settings: { ...usual, length: 12 } }],
      [{ provider: { type: "generated_value" }, settings }, { provider_settings: { ...usual, length: 12 } }],
      [
        { provider: "generated_value", unknown: 1 },
        { provider: "generated_value", provider_settings: usual },
      ],
      [
        { ...byCommand, gatewayEnvironment: "production" },
        { provider: "gateway", gateway_environment: "production" },
      ],
    ];
    for (const [body, expected] of spellings) {
      const { id } = await server.secret();

      const answer = await configurations.put(id, body);

      expect(answer.status, JSON.stringify(body)).to.equal(200);
      expect(answer.body, JSON.stringify(body)).to.deep.include(expected);
    }
  });

  it("changes what is mentioned and nothing else", async () => {
    const { secret, config } = await configurations.of(
      { ...byWebhook(), enabled: true, interval: "10d", credentials: { signing_secret: "s" } },
      { environment: "production" },
    );
    const changes: [Record<string, unknown>, Record<string, unknown>][] = [
      [{ enabled: false }, { enabled: false, next_rotation: null }],
      [{ interval: 20 }, { interval_days: 20 }],
      [{ gateway_environment: "staging" }, { gateway_environment: "staging" }],
      [{ gateway_environment: null }, { gateway_environment: "production" }],
      [{ credentials: null }, { has_credentials: false }],
      [{ credentials: { headers: { "x-key": "k" } } }, { has_credentials: true }],
      [{ credentials: {} }, { has_credentials: false }],
    ];

    const { updated_at: _, ...expected } = config;
    for (const [change, difference] of changes) {
      const { body } = await configurations.put(secret.id, change);

      Object.assign(expected, difference);
      expect(body, JSON.stringify(change)).to.deep.include(expected);
      expect(await configurations.get(secret.id)).to.deep.equal(body);
    }
  });

  it("changes nothing when nothing is to change: updated_at stands", async () => {
    const { secret, config } = await configurations.of(
      { ...byWebhook(), enabled: true, interval: "10d" },
      { environment: "production" },
    );
    const nothing = [
      {},
      undefined,
      { enabled: true },
      { interval: "10d" },
      { interval: null, provider: null, settings: null, enabled: null, rotate_immediately: false },
      byWebhook(),
      { provider: "gateway" },
      { settings: config.provider_settings },
      { gateway_environment: "production" },
      { gateway_environment: null },
      { credentials: null },
      { credentials: {} },
    ];
    for (const body of nothing) {
      const answer = await configurations.put(secret.id, body);

      expect(answer.status, JSON.stringify(body)).to.equal(200);
      expect(answer.body, JSON.stringify(body)).to.deep.equal(config);
    }
  });

  it("says nothing of a secret that stays as it was: no row is made", async () => {
    const { id } = await server.secret({ rotation: { enabled: true } });

    await configurations.put(id, { enabled: true, interval: 30, provider: "generated_value" });

    expect(await server.sql("select from rotation_config where secret_id = $1", [id])).to.deep.equal([]);
  });

  it("drops settings, credentials and environment with another provider, and credentials with another driver", async () => {
    const { secret } = await configurations.of(
      { ...byWebhook(), credentials: { signing_secret: "s" }, gateway_environment: "production" },
      {},
    );

    const { body: again } = await configurations.put(secret.id, byWebhook({ mode: "mint" }));
    const { body: otherDriver } = await configurations.put(secret.id, byCommand);
    await configurations.put(secret.id, { credentials: { password: "p" } });
    const { body: otherProvider } = await configurations.put(secret.id, { provider: "generated_value" });

    expect(again).to.include({ has_credentials: true, gateway_environment: "production" });
    expect(otherDriver).to.include({ has_credentials: false, gateway_environment: "production" });
    expect(otherProvider).to.deep.include({
      provider: "generated_value",
      provider_settings: usual,
      has_credentials: false,
      gateway_environment: null,
    });
    const [row] = await server.sql("select credentials from rotation_config where secret_id = $1", [secret.id]);
    expect(row.credentials).to.equal(null);
  });

  it("has the secret's environment served by its gateways unless another one is named, and needs one of both", async () => {
    const { config: own } = await configurations.of(byCommand, { environment: "production" });
    const { config: named } = await configurations.of(
      { ...byCommand, gateway_environment: "dmz" },
      { environment: "production" },
    );
    const { id } = await server.secret();

    const none = await configurations.put(id, byCommand);
    const pointless = await configurations.put(id, { gateway_environment: "dmz" });
    const { config: removed } = await configurations.of({ ...byCommand, gateway_environment: "dmz" });
    const taken = await configurations.put(removed.secret_id, { gateway_environment: null });

    expect([own.gateway_environment, named.gateway_environment]).to.deep.equal(["production", "dmz"]);
    for (const { status, body } of [none, pointless, taken]) {
      expect(status).to.equal(400);
      expect(body.error.details[0].field).to.equal("gateway_environment");
    }
    expect((await configurations.get(id)).provider).to.equal("generated_value");
  });

  it("rotates once when asked to, and by no other word", async () => {
    const { secret } = await configurations.of({ enabled: true, settings: { length: 8, charset: "digits" } });

    const { body: config } = await configurations.put(secret.id, { rotate_immediately: true });
    await configurations.put(secret.id, { enabled: false });
    await configurations.put(secret.id, { enabled: true });
    const { body: read } = await server.admin.rest("GET", `/api/v1/secrets/${secret.id}`);

    expect(config).to.include({ last_status: "succeeded", consecutive_failures: 0 });
    expect(read.version).to.equal(2);
    expect(read.value).to.match(/^\d{8}$/);
    expect(read.rotation).to.include({ last_rotated: config.last_rotated });
    expect(Date.parse(config.next_rotation) - Date.parse(config.last_rotated)).to.equal(30 * dayMs);
  });

  it("rotates by what the same request says", async () => {
    const { id } = await server.secret();

    const { body } = await configurations.put(id, {
      settings: { charset: "hex", length: 64 },
      rotate_immediately: true,
    });

    expect(body.last_status).to.equal("succeeded");
    expect((await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body.value).to.match(/^[0-9a-f]{64}$/);
  });

  it("reads JSON of several types over gRPC and Connect, with a mask and without one", async () => {
    const { id } = await server.secret({ environment: "production" });
    const grpc = server.admin.grpc(RotationConfigService);
    const connect = server.admin.connect(RotationConfigService);
    const provider = json({ type: "gateway", settings: byCommand.provider_settings, credentials: { a: "b" } });

    const first = await grpc.updateRotationConfig({ id, intervalDays: json("12d"), provider }, server.admin.metadata());
    const second = await connect.updateRotationConfig({ id, intervalDays: json(13), enabled: true });
    const third = await grpc.updateRotationConfig(
      { id, intervalDays: json(99), updateMask: { paths: ["credentials"] } },
      server.admin.metadata(),
    );
    grpc.close();

    const shown = [first, second, third].map(({ intervalDays, enabled, provider: name, hasCredentials }) => [
      intervalDays,
      enabled,
      name,
      hasCredentials,
    ]);
    expect(shown).to.deep.equal([
      [12, false, "gateway", true],
      [13, true, "gateway", true],
      [13, true, "gateway", false],
    ]);
  });

  it("refuses over gRPC what is no JSON, of another type, or too deep, naming the field", async () => {
    const { id } = await server.secret();
    const grpc = server.admin.grpc(RotationConfigService);
    let deep: JsonValue = "deepest";
    for (let level = 0; level < 33; level += 1) deep = [deep];
    const bad = [
      create(ValueSchema),
      create(ValueSchema, { kind: { case: "numberValue", value: Number.NaN } }),
      create(ValueSchema, { kind: { case: "numberValue", value: Number.POSITIVE_INFINITY } }),
      json(true),
      json(["30d"]),
      json("\0"),
      json({ type: "\0" }),
      json({ type: deep }),
    ];
    for (const [field, value] of bad.flatMap((each) => [
      ["interval_days", each] as const,
      ["provider", each] as const,
    ])) {
      const name = field === "provider" ? "provider" : "intervalDays";

      const fault = await faultOf(grpc.updateRotationConfig({ id, [name]: value }, server.admin.metadata()));

      expect(fault, JSON.stringify(value.kind)).to.equal(`VALIDATION_ERROR ${field}`);
    }
    const nothing = await grpc.updateRotationConfig({ id, provider: json(null) }, server.admin.metadata());
    grpc.close();

    expect(nothing.provider).to.equal("generated_value");
  });

  it("is recorded, with what it was about and without what it said", async () => {
    const { secret, config } = await configurations.of({
      ...byCommand,
      gateway_environment: "production",
      credentials: { password: "hunter2-hunter2" },
    });

    const events = await server.sql(
      "select action, resource_type, resource_name, project_id, details from audit_event where resource_id = $1 and action like 'rotation%'",
      [secret.id],
    );

    expect(events).to.have.length(1);
    expect(events[0]).to.include({
      action: "rotation_config.update",
      resource_type: "secret",
      resource_name: secret.key,
      project_id: server.projectId,
    });
    expect(JSON.parse(events[0].details)).to.deep.equal({ config_id: config.id, provider: "gateway" });
  });
});
