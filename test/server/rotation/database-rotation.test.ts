import { expect } from "chai";
import { PostgresTarget } from "../../harness/postgres-target.ts";
import { useServer } from "../../harness/server.ts";
import { Configurations } from "./configurations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);
const read = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}`)).body;

describe("RotateSecret of a password of a database", () => {
  let target: PostgresTarget;
  before(async function () {
    this.timeout(60_000);
    target = await PostgresTarget.start();
    for (const role of ["app", "app_a", "app_b"]) await target.createRole(role, "first");
  });
  after(() => target.stop());

  const at = (settings: Record<string, unknown>) => ({
    provider: "postgres_role",
    provider_settings: {
      host: target.host,
      port: target.port,
      database: "postgres",
      ssl_mode: "disable",
      ...settings,
    },
  });
  const admin = () => ({ admin_username: "service", admin_password: target.superuserPassword });

  it("leaves the database and the secret with the same one, whoever changes it", async () => {
    const { secret } = await configurations.of(at({ username: "app", length: 24 }), { value: "first" });

    const byItself = await configurations.rotate(secret.id);
    const first = await read(secret.id);
    await configurations.put(secret.id, { credentials: admin() });
    const byAdmin = await configurations.rotate(secret.id);
    const second = await read(secret.id);

    expect([byItself.body.version, byAdmin.body.version]).to.deep.equal([2, 3]);
    expect(first.value).to.match(/^[A-Za-z0-9]{24}$/);
    expect(await target.canLogIn("app", first.value)).to.equal(false);
    expect(await target.canLogIn("app", second.value)).to.equal(true);
  });

  it("lets two roles take turns, so that the one before goes on working", async () => {
    const settings = at({ roles: ["app_a", "app_b"], value_format: "json" });
    const { secret } = await configurations.of(
      { ...settings, credentials: admin() },
      { value: '{"username":"app_a","password":"first"}' },
    );

    await configurations.rotate(secret.id);
    const first = JSON.parse((await read(secret.id)).value);
    await configurations.rotate(secret.id);
    const second = JSON.parse((await read(secret.id)).value);

    expect([first.username, second.username]).to.deep.equal(["app_b", "app_a"]);
    expect(await target.canLogIn("app_b", first.password)).to.equal(true);
    expect(await target.canLogIn("app_a", second.password)).to.equal(true);
  });

  it("that is refused or cannot be reached leaves both as they were", async () => {
    await target.createRole("other", "first");
    const { secret } = await configurations.of(
      { ...at({ username: "other" }), credentials: { ...admin(), admin_password: "wrong" } },
      { value: "first" },
    );

    const refused = await configurations.rotate(secret.id);
    await target.down();
    const away = await configurations.rotate(secret.id);
    await target.up();

    for (const { status, body } of [refused, away]) {
      expect(status).to.equal(503);
      expect(body.error.message).to.match(/^rotation failed: .+; the current value is unchanged$/);
      expect(body.error.message).not.to.include("wrong");
    }
    expect(await read(secret.id)).to.include({ version: 1, value: "first" });
    expect(await target.canLogIn("other", "first")).to.equal(true);
  });
});
