import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { bootstrap } from "../../../src/server/auth/bootstrap.ts";
import { SrpAccounts } from "../../../src/server/auth/srp-accounts.ts";
import { readConfig } from "../../../src/server/config.ts";
import { createLogger } from "../../../src/server/logging.ts";
import { readMasterKey } from "../../../src/server/seal/master-key.ts";
import { asKey } from "../../../src/server/seal/seal.ts";
import { type Server, startServer } from "../../../src/server/server.ts";
import { Client } from "../../harness/client.ts";
import { cloneDatabase, dropDatabase } from "../../harness/databases.ts";
import { loginAs } from "../../harness/person.ts";
import { urlOf } from "../../harness/server.ts";

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Tries again while nobody listens. */
async function untilListening<T>(send: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await send();
    } catch {
      await sleep(10);
    }
  }
}

/** Until the bootstrap waits for its lock, and for as long again as a request takes. */
async function untilWaiting(client: pg.Client): Promise<void> {
  for (;;) {
    const { rows } = await client.query("select 1 from pg_locks where locktype = 'advisory' and not granted");
    if (rows.length > 0) break;
    await sleep(10);
  }
  await sleep(200);
}

const masterKey = randomBytes(32).toString("base64");

describe("The first start on an empty database", () => {
  let databaseUrl = "";
  let replicas: Server[] = [];

  beforeEach(async () => {
    databaseUrl = await cloneDatabase();
  });

  afterEach(async () => {
    await Promise.all(replicas.map((replica) => replica.stop(500)));
    replicas = [];
    await dropDatabase(databaseUrl);
  });

  async function start(settings: Record<string, string> = {}): Promise<Server> {
    const all = { PORT: "0", OCSP_PORT: "0", MASTER_KEY: masterKey, RATE_LIMIT_AUTH: "0", ...settings };
    const config = readConfig(
      Object.fromEntries(Object.entries(all).map(([name, value]) => [`SERVICE_${name}`, value])),
    );
    const replica = await startServer({
      config,
      logger: createLogger("silent"),
      databaseUrl,
      redisUrls: ["redis://127.0.0.1:1"],
      masterKey: readMasterKey(config, false),
      parts: new Set(["api"]),
    });
    replicas.push(replica);
    return replica;
  }

  const login = (server: Server, client_id: string, client_secret: string) =>
    new Client(urlOf(server), undefined).rest("POST", "/api/v1/auth/universal-auth/login", {
      client_id,
      client_secret,
    });

  async function sql(text: string) {
    const client = new pg.Client(databaseUrl);
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  }

  it("makes one organization, one project and one administrator, whose generated secret works", async () => {
    const server = await start();

    const { clientId, clientSecret, projectId, secretWasGiven } =
      server.bootstrapped ?? expect.fail("nothing was made");
    const { status, body } = await login(server, clientId, clientSecret);
    const admin = new Client(urlOf(server), body.access_token);
    expect(status).to.equal(200);
    expect(secretWasGiven).to.equal(false);
    const { body: projects } = await admin.rest("GET", "/api/v1/projects");
    expect(projects.data).to.have.length(1);
    expect(projects.data[0]).to.include({ id: projectId, name: "default" });
    const { body: identities } = await admin.rest("GET", "/api/v1/machine-identities");
    expect(identities.data).to.have.length(1);
    expect(identities.data[0].roles).to.deep.equal(["admin", "gateway:admin"]);
  });

  it("makes a user who is an administrator too, whose generated password works", async () => {
    const server = await start();

    const { username, password, passwordWasGiven } = server.bootstrapped ?? expect.fail("nothing was made");
    const admin = await loginAs(new Client(urlOf(server), undefined), username, password);
    const { body } = await admin.rest("GET", "/api/v1/users/me");

    expect([username, passwordWasGiven]).to.deep.equal(["admin", false]);
    expect(password).to.have.length(24);
    expect(body).to.deep.include({ username: "admin", status: "active", roles: ["admin", "gateway:admin"] });
  });

  it("takes the user's name, password and an API token from the settings, and keeps none of them in clear", async () => {
    const given = {
      BOOTSTRAP_ADMIN_USERNAME: "Root@Example.org",
      BOOTSTRAP_ADMIN_PASSWORD: "pässwort of the operator",
      BOOTSTRAP_API_TOKEN: "a-token-of-the-operator",
    };

    const server = await start(given);
    const nobody = new Client(urlOf(server), undefined);
    const admin = await loginAs(nobody, "root@example.org", given.BOOTSTRAP_ADMIN_PASSWORD);
    const byToken = await new Client(urlOf(server), given.BOOTSTRAP_API_TOKEN).rest("GET", "/api/v1/whoami");

    expect(server.bootstrapped).to.deep.include({ username: "root@example.org", passwordWasGiven: true });
    expect(byToken.body).to.deep.include({ id: admin.id, name: "root@example.org", roles: ["admin", "gateway:admin"] });
    const [{ everything }] = await sql("select jsonb_agg(t)::text as everything from api_token t");
    expect(everything).not.to.include(given.BOOTSTRAP_API_TOKEN);
  });

  it("takes client id, client secret and project id from the settings", async () => {
    const given = {
      BOOTSTRAP_CLIENT_ID: "ci-administrator",
      BOOTSTRAP_CLIENT_SECRET: "a-secret-of-the-operator",
      BOOTSTRAP_PROJECT_ID: "0193B1D2-6A3E-7C1B-9A70-0D6C4F1F3F55",
    };

    const server = await start(given);

    expect(server.bootstrapped).to.deep.include({ clientId: "ci-administrator", secretWasGiven: true });
    expect(server.bootstrapped?.projectId).to.equal("0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55");
    expect((await login(server, "ci-administrator", given.BOOTSTRAP_CLIENT_SECRET)).status).to.equal(200);
  });

  it("is done once, whatever a later start has in its settings", async () => {
    await start({ BOOTSTRAP_CLIENT_ID: "first", BOOTSTRAP_CLIENT_SECRET: "the-first-secret" });

    const second = await start({ BOOTSTRAP_CLIENT_ID: "second", BOOTSTRAP_CLIENT_SECRET: "the-second-secret" });

    expect(second.bootstrapped).to.equal(undefined);
    expect((await login(second, "first", "the-first-secret")).status).to.equal(200);
    expect((await login(second, "second", "the-second-secret")).status).to.equal(401);
  });

  it("makes one organization when several replicas start at once, and each accepts the others' tokens", async () => {
    const [one, two, three] = await Promise.all([start(), start(), start()]);

    const made = [one, two, three].filter(({ bootstrapped }) => bootstrapped !== undefined);
    expect(made).to.have.length(1);
    const [counts] = await sql(
      `select (select count(*)::int from organization) as organizations, (select count(*)::int from project) as projects,
         (select count(*)::int from machine_identity) as identities, (select count(*)::int from organization_key) as keys`,
    );
    expect(counts).to.deep.equal({ organizations: 1, projects: 1, identities: 1, keys: 1 });
    const { clientId = "", clientSecret = "" } = made[0]?.bootstrapped ?? {};
    const { body } = await login(two, clientId, clientSecret);
    for (const replica of [one, two, three]) {
      const { status } = await new Client(urlOf(replica), body.access_token).rest("GET", "/api/v1/projects");
      expect(status).to.equal(200);
    }
  });

  it("makes one organization however many get to the empty database at the same moment", async () => {
    const { core } = await start();
    await sql(
      "truncate organization, organization_key, project, machine_identity, user_account, client_secret, role_binding, secret cascade",
    );
    const pepper = asKey(await core.seal.serviceKey("client-secret-pepper"));
    const accounts = new SrpAccounts(core.seal, pepper);

    const made = await Promise.all(Array.from({ length: 5 }, () => bootstrap(core, { pepper, accounts })));

    expect(made.filter((each) => each !== undefined)).to.have.length(1);
    expect(await sql("select name from organization")).to.deep.equal([{ name: "default" }]);
  });

  it("comes before the first answer: who finds the server healthy can log in", async () => {
    const port = await freePort();
    const other = new pg.Client(databaseUrl);
    await other.connect();
    await other.query("select pg_advisory_lock(hashtextextended('holdfast:bootstrap', 0))");
    const secret = "a-secret-of-the-operator";
    const starting = start({ PORT: String(port), BOOTSTRAP_CLIENT_ID: "ci", BOOTSTRAP_CLIENT_SECRET: secret });
    const nobody = new Client(`http://127.0.0.1:${port}`, undefined);
    let answered = false;
    const healthy = untilListening(() => nobody.rest("GET", "/api/v1/auth/srp/parameters")).then(({ status }) => {
      answered = true;
      return status;
    });
    await untilWaiting(other);
    const answeredEarly = answered;

    await other.end();

    expect(answeredEarly).to.equal(false);
    expect(await healthy).to.equal(200);
    const { status } = await nobody.rest("POST", "/api/v1/auth/universal-auth/login", {
      client_id: "ci",
      client_secret: secret,
    });
    expect(status).to.equal(200);
    await starting;
  });

  it("is recorded as the system's", async () => {
    await start();

    const rows = await sql("select action, actor_type, outcome from audit_event");
    expect(rows).to.deep.equal([{ action: "organization.create", actor_type: "system", outcome: "success" }]);
  });

  it("refuses settings that cannot be, naming them", () => {
    const cases = [
      ["BOOTSTRAP_CLIENT_SECRET", "short"],
      ["BOOTSTRAP_PROJECT_ID", "default"],
      ["BOOTSTRAP_ADMIN_USERNAME", "two words"],
      ["BOOTSTRAP_ADMIN_PASSWORD", "short"],
      ["BOOTSTRAP_API_TOKEN", "with.dots.that.a.jwt.has"],
    ] as const;
    for (const [name, value] of cases) {
      expect(() => readConfig({ [`SERVICE_${name}`]: value })).to.throw(`SERVICE_${name}`);
    }
  });
});
