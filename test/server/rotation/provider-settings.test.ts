import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { byCommand, byWebhook, Configurations, pushTo } from "./configurations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
const generation = { length: 32, charset: "alphanumeric", exclude_characters: "" };
const webhook = { url: "https://rotate.example.com/hook", mode: "push", timeout_seconds: 10, headers: {} };
const database = {
  host: "db.internal",
  port: 5432,
  database: "app",
  username: "app_rw",
  roles: null,
  ssl_mode: "verify-full",
  ca_certificate_pem: null,
  value_format: "password",
};
const name = (length: number) => "n".repeat(length);

describe("Provider settings", () => {
  it("are shown with all that was left out", async () => {
    const accepted: [Record<string, unknown>, Record<string, unknown>][] = [
      [{ settings: { length: 8 } }, { ...generation, length: 8 }],
      [{ settings: { length: 256, charset: "digits" } }, { ...generation, length: 256, charset: "digits" }],
      [
        { settings: { charset: "hex", exclude_characters: "0123456789abcd" } },
        { ...generation, charset: "hex", exclude_characters: "0123456789abcd" },
      ],
      [
        { provider: "gateway", settings: { driver: "generated_value" } },
        { ...generation, driver: "generated_value", driver_settings: {} },
      ],
      [byCommand, { ...generation, driver: "command", driver_settings: { command: "rotate-app", parameters: {} } }],
      [
        {
          provider: {
            type: "gateway",
            settings: {
              driver: "command",
              driver_settings: { command: "0_a", parameters: { deep: [{ any: null }], ["__proto__"]: 1 } },
              charset: "base64url",
            },
          },
        },
        {
          ...generation,
          charset: "base64url",
          driver: "command",
          driver_settings: { command: "0_a", parameters: { deep: [{ any: null }], ["__proto__"]: 1 } },
        },
      ],
      [byWebhook(), { ...generation, driver: "webhook", driver_settings: webhook }],
      [
        byWebhook({
          url: "http://10.0.0.1:8080/a?b=c",
          mode: "mint",
          timeout_seconds: "30",
          headers: { "X-Key": "a b" },
        }),
        {
          ...generation,
          driver: "webhook",
          driver_settings: {
            url: "http://10.0.0.1:8080/a?b=c",
            mode: "mint",
            timeout_seconds: 30,
            headers: { "X-Key": "a b" },
          },
        },
      ],
      [pushTo(webhook.url), { ...generation, ...webhook }],
      [
        pushTo(webhook.url, { length: 12, charset: "digits", timeout_seconds: 5 }),
        { ...generation, ...webhook, length: 12, charset: "digits", timeout_seconds: 5 },
      ],
      [pushTo(webhook.url, { mode: "mint" }), { ...webhook, mode: "mint" }],
      [
        {
          provider: "postgres_role",
          settings: { host: "db.internal", database: "app", username: "app_rw", length: 64 },
        },
        { ...generation, ...database, length: 64 },
      ],
      [
        {
          provider: "gateway",
          settings: {
            driver: "postgres_role",
            driver_settings: { host: "db.internal", database: "app", username: "app_rw" },
          },
        },
        { ...generation, driver: "postgres_role", driver_settings: database },
      ],
    ];
    for (const [body, shown] of accepted) {
      const { config } = await configurations.of(body, { environment: "production" });

      expect(config.provider_settings, JSON.stringify(body)).to.deep.equal(shown);
    }
  });

  it("are refused for what is unknown, missing or outside the limits, naming it, and nothing changes", async () => {
    const hook = "provider_settings.driver_settings";
    const headers = (each: Record<string, unknown>) => byWebhook({ headers: each });
    const many = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`x-${index}`, "v"]));
    const refused: [string, Record<string, unknown>][] = [
      ["provider", { provider: "postgres" }],
      ["provider", { provider: "constructor" }],
      ["provider", { provider: "" }],
      ["provider", { provider: 5 }],
      ["provider", { provider: true }],
      ["provider", { provider: ["gateway"] }],
      ["provider.type", { provider: {} }],
      ["provider.type", { provider: { type: 5 } }],
      ["provider.settings", { provider: { type: "generated_value", settings: [] } }],
      ["provider.credentials", { provider: { type: "gateway", credentials: "s" } }],
      ["provider_settings", { settings: "length=8" }],
      [
        "provider_settings",
        { settings: { length: 8 }, provider: { type: "generated_value", settings: { length: 9 } } },
      ],
      ["provider_settings.length", { settings: { length: 7 } }],
      ["provider_settings.length", { settings: { length: 257 } }],
      ["provider_settings.length", { settings: { length: 8.5 } }],
      ["provider_settings.length", { settings: { length: true } }],
      ["provider_settings.length", { settings: { length: "" } }],
      ["provider_settings.charset", { settings: { charset: "ascii" } }],
      ["provider_settings.exclude_characters", { settings: { exclude_characters: 5 } }],
      ["provider_settings.exclude_characters", { settings: { charset: "digits", exclude_characters: "012345678" } }],
      ["provider_settings.exclude_characters", { settings: { exclude_characters: name(257) } }],
      ["provider_settings.driver", { settings: { driver: "command" } }],
      ["provider_settings.size", { settings: { size: 8 } }],
      ["provider_settings.driver", { provider: "gateway" }],
      ["provider_settings.driver", { provider: "gateway", settings: { driver: "oracle" } }],
      ["provider_settings.url", { provider: "webhook" }],
      ["provider_settings.url", { provider: "webhook", settings: { url: "ftp://a/b", length: 8 } }],
      ["provider_settings.length", pushTo(webhook.url, { length: 7 })],
      [
        "provider_settings.exclude_characters",
        pushTo(webhook.url, { charset: "digits", exclude_characters: "012345678" }),
      ],
      ["provider_settings.size", pushTo(webhook.url, { size: 8 })],
      ["provider_settings.length", pushTo(webhook.url, { mode: "mint", length: 12 })],
      ["provider_settings.driver", pushTo(webhook.url, { driver: "webhook" })],
      ["credentials.token", { ...pushTo(webhook.url), credentials: { token: "t" } }],
      ["gateway_environment", { ...pushTo(webhook.url), gateway_environment: "production" }],
      ["provider_settings.database", { provider: "postgres_role", settings: { host: "db.internal" } }],
      ["provider_settings.username", { provider: "postgres_role", settings: { host: "db.internal", database: "app" } }],
      [
        `${hook}.username`,
        {
          provider: "gateway",
          settings: { driver: "postgres_role", driver_settings: { host: "db.internal", database: "app" } },
        },
      ],
      ["provider_settings.command", { provider: "gateway", settings: { driver: "command", command: "c" } }],
      [hook, { provider: "gateway", settings: { driver: "command", driver_settings: [] } }],
      [`${hook}.command`, { provider: "gateway", settings: { driver: "command" } }],
      [`${hook}.x`, { provider: "gateway", settings: { driver: "generated_value", driver_settings: { x: 1 } } }],
      ...["", "A", "-a", "_a", "a b", "a/b", "a;b", "é", name(64), 5].map(
        (command): [string, Record<string, unknown>] => [
          `${hook}.command`,
          { provider: "gateway", settings: { driver: "command", driver_settings: { command } } },
        ],
      ),
      [
        `${hook}.parameters`,
        { provider: "gateway", settings: { driver: "command", driver_settings: { command: "c", parameters: [1] } } },
      ],
      ...["", "rotate.example.com", "ftp://a/b", "file:///etc/passwd", "https://u:p@a/b", "https://a/b#c", 5].map(
        (url): [string, Record<string, unknown>] => [`${hook}.url`, byWebhook({ url })],
      ),
      [`${hook}.url`, byWebhook({ url: `https://a/${name(2048)}` })],
      [`${hook}.mode`, byWebhook({ mode: "pull" })],
      [`${hook}.timeout_seconds`, byWebhook({ timeout_seconds: 0 })],
      [`${hook}.timeout_seconds`, byWebhook({ timeout_seconds: 31 })],
      [`${hook}.retries`, byWebhook({ retries: 3 })],
      [`${hook}.headers`, headers(many)],
      [`${hook}.headers.x`, headers({ x: 5 })],
      [`${hook}.headers.x`, headers({ x: "a\r\nb: c" })],
      [`${hook}.headers.a b`, headers({ "a b": "c" })],
      ...["Host", "content-length", "Content-Type", "X-Holdfast-Signature", "transfer-encoding", "user-agent"].map(
        (header): [string, Record<string, unknown>] => [`${hook}.headers.${header}`, headers({ [header]: "v" })],
      ),
      ["credentials", { credentials: "s" }],
      ["credentials", { credentials: [] }],
      ["credentials.password", { credentials: { password: "p" } }],
      ["credentials.token", { ...byWebhook(), credentials: { token: "t" } }],
      ["credentials.signing_secret", { ...byWebhook(), credentials: { signing_secret: "" } }],
      ["credentials.signing_secret", { ...byWebhook(), credentials: { signing_secret: 5 } }],
      ["credentials.headers.x", { ...byWebhook(), credentials: { headers: { x: "\n" } } }],
      ["credentials", { credentials: { a: 1 }, provider: { type: "gateway", credentials: { a: 2 } } }],
      ["interval_days", { interval: 0 }],
      ["interval_days", { interval: 3651 }],
      ["interval_days", { interval: "0d" }],
      ["interval_days", { interval: "3651d" }],
      ["interval_days", { interval: "soon" }],
      ["interval_days", { interval: "30 d" }],
      ["interval_days", { interval: "" }],
      ["interval_days", { interval: 5.5 }],
      ["interval_days", { interval: true }],
      ["interval_days", { interval: { days: 5 } }],
      ["interval_days", { interval: 5, rotation_interval_days: 6 }],
      ["enabled", { enabled: "yes" }],
      ["gateway_environment", { ...byCommand, gateway_environment: "" }],
      ["gateway_environment", { ...byCommand, gateway_environment: name(51) }],
      ["rotate_immediately", { rotate_immediately: 1 }],
    ];
    const secret = await server.secret({ environment: "production" });
    const before = await configurations.get(secret.id);
    for (const [field, body] of refused) {
      const answer = await configurations.put(secret.id, { ...body, enabled: body["enabled"] ?? true });

      expect(answer.status, JSON.stringify(body)).to.equal(400);
      expect(answer.body.error.details[0]?.field, JSON.stringify(body)).to.equal(field);
      expect(answer.body.error.details[0]?.message)
        .to.match(/^[a-z]/)
        .and.not.include("undefined");
    }
    expect(await configurations.get(secret.id)).to.deep.equal(before);
  });

  it("are refused with the list of what there is", async () => {
    const { id } = await server.secret({ environment: "production" });
    const message = async (body: unknown) => (await configurations.put(id, body)).body.error.details[0].message;

    expect(await message({ provider: "magic" })).to.equal(
      "must be one of generated_value, webhook, postgres_role, mysql_user, gateway",
    );
    expect(await message({ provider: "gateway", settings: { driver: "magic" } })).to.equal(
      "must be one of generated_value, command, webhook, postgres_role, mysql_user",
    );
    expect(await message({ settings: { charset: "magic" } })).to.equal(
      "must be one of alphanumeric, alphanumeric_symbols, hex, base64url, digits",
    );
    expect(await message({ provider: { settings: {} } })).to.equal("is required");
    expect(await message({ provider: 5 })).to.equal("must be a string or an object");
    expect(await message({ interval: true })).to.equal("must be an integer or a string");
  });

  it("name all that is wrong with them at once", async () => {
    const { id } = await server.secret({ environment: "production" });

    const { body } = await configurations.put(id, byWebhook({ url: "x", mode: "y", z: 1 }));

    expect(body.error.details.map(({ field }: { field: string }) => field)).to.have.members([
      "provider_settings.driver_settings.url",
      "provider_settings.driver_settings.mode",
      "provider_settings.driver_settings.z",
    ]);
  });

  it("are judged together with the credentials that there will be, also those that are there", async () => {
    const settings = {
      host: "db.internal",
      database: "app",
      roles: ["app_a", "app_b"],
      value_format: "json",
    };
    const credentials = { admin_username: "rotator", admin_password: "p" };
    const { id } = await server.secret({ environment: "production" });
    const put = async (body: unknown) => {
      const { status, body: answer } = await configurations.put(id, body);
      return [status, ...(answer.error?.details ?? []).map(({ field }: { field: string }) => field)];
    };

    expect(await put({ provider: "postgres_role", settings })).to.deep.equal([400, "provider_settings.roles"]);
    expect(await put({ provider: "postgres_role", settings, credentials })).to.deep.equal([200]);
    expect(await put({ settings: { ...settings, length: 20 } })).to.deep.equal([200]);
    expect(await put({ enabled: true })).to.deep.equal([200]);
    expect(await put({ credentials: null })).to.deep.equal([400, "provider_settings.roles"]);
    expect(await put({ settings: { ...settings, value_format: "password" } })).to.deep.equal([
      400,
      "provider_settings.value_format",
    ]);
    const byGateway = { provider: "gateway", settings: { driver: "postgres_role", driver_settings: settings } };
    expect(await put(byGateway)).to.deep.equal([400, "provider_settings.driver_settings.roles"]);
    expect(await put({ ...byGateway, credentials })).to.deep.equal([200]);
  });

  for (const [what, provider, before, after] of [
    ["of a webhook", "webhook", { url: "https://a.example.com/" }, { url: "https://b.example.com/" }],
    ["of a webhook, in the clear", "webhook", { url: "https://a.example.com/" }, { url: "http://a.example.com/" }],
    ["of a database", "mysql_user", { host: "a", username: "app" }, { host: "b", username: "app" }],
    ["of a database, by a port", "mysql_user", { host: "a", username: "app" }, { host: "a", port: 1, username: "app" }],
  ] as const) {
    it(`do not have kept credentials sent to another host ${what}`, async () => {
      const credentials =
        provider === "webhook" ? { signing_secret: "s" } : { admin_username: "rotator", admin_password: "p" };
      const { id } = await server.secret();
      await configurations.put(id, { provider, settings: before, credentials });

      const { status, body } = await configurations.put(id, { settings: after });
      const again = await configurations.put(id, { settings: after, credentials });

      expect(status).to.equal(400);
      expect(body.error.details[0].field).to.equal("credentials");
      expect(again.status).to.equal(200);
    });
  }

  it("take at most 64 KiB as JSON, and credentials 32 KiB", async () => {
    const { id } = await server.secret({ environment: "production" });
    const sized = (bytes: number) => ({ text: name(bytes - 11) });
    const settings = (bytes: number) => {
      const around = { driver: "command", driver_settings: { command: "c", parameters: { text: "" } } };
      const text = name(bytes - JSON.stringify(around).length);
      return { ...around, driver_settings: { command: "c", parameters: { text } } };
    };

    const most = await configurations.put(id, {
      provider: "gateway",
      settings: settings(65_536),
      credentials: sized(32_768),
    });
    const more = await configurations.put(id, { provider: "gateway", settings: settings(65_537) });
    const moreCredentials = await configurations.put(id, { ...byCommand, credentials: sized(32_769) });

    expect(most.status).to.equal(200);
    expect([more.status, more.body.error.details[0].field]).to.deep.equal([400, "provider_settings"]);
    expect([moreCredentials.status, moreCredentials.body.error.details[0].field]).to.deep.equal([400, "credentials"]);
  });
});
