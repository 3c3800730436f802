import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { tryPassword } from "../../harness/person.ts";
import { urlOf, useServer, usualPassword } from "../../harness/server.ts";

const server = useServer();

const byPassword = (username: string) => (password: string) => tryPassword(server.anonymous, username, password);
const bySecret = (client_id: string) => (client_secret: string) =>
  server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", { client_id, client_secret });

type Login = (secret: string) => ReturnType<ReturnType<typeof bySecret>>;

async function failTimes(count: number, login: Login): Promise<void> {
  for (let failure = 1; failure <= count; failure += 1) {
    expect((await login("wrong")).body.error?.code, `failure ${failure}`).to.equal("AUTH_INVALID");
  }
}

/** How long the account is shut, in whole minutes; undefined when it is open. */
async function pauseOf(login: Login, secret: string): Promise<number | undefined> {
  const { status, headers, body } = await login(secret);
  if (status === 200) return undefined;
  expect([status, body.error.code]).to.deep.equal([429, "RATE_LIMITED"]);
  return Math.ceil(Number(headers.get("retry-after")) / 60);
}

describe("An account whose secret is guessed", () => {
  before(() => server.user("guessed"));

  it("is shut for a minute after ten failures, for the right password too", async () => {
    const login = byPassword("guessed");

    await failTimes(10, login);

    expect(await pauseOf(login, usualPassword)).to.equal(1);
    expect(await pauseOf(login, "wrong")).to.equal(1);
  });

  it("is shut for 2, 4, 8 and then 15 minutes by each further failure", async () => {
    const { redis } = server.server.core;
    const minutes = [];
    for (let round = 0; round < 5; round += 1) {
      await redis.del("login-pause:user:guessed"); // the pause is over
      await failTimes(1, byPassword("guessed"));
      minutes.push(await pauseOf(byPassword("guessed"), "wrong"));
    }

    expect(minutes).to.deep.equal([2, 4, 8, 15, 15]);
  });

  it("is open again, and all is forgiven, after a success", async () => {
    await server.user("forgetful");
    const login = byPassword("forgetful");

    await failTimes(9, login);
    expect((await login(usualPassword)).status).to.equal(200);
    await failTimes(9, login);

    expect((await login(usualPassword)).status).to.equal(200);
  });

  it("is shut alike when nobody has it", async () => {
    const login = byPassword("not-a-user");

    await failTimes(10, login);

    expect(await pauseOf(login, "wrong")).to.equal(1);
  });

  it("does not shut others", async () => {
    await server.user("bystander");

    expect((await byPassword("bystander")(usualPassword)).status).to.equal(200);
  });

  it("is shut on every replica", async () => {
    const replica = await server.startReplica();
    await failTimes(10, byPassword("shut-everywhere"));

    const { status } = await tryPassword(new Client(urlOf(replica), undefined), "shut-everywhere", "wrong");

    expect(status).to.equal(429);
  });
});

describe("A machine identity whose client secret is guessed", () => {
  it("is not shut by programs that still use a secret of its own that has ended", async () => {
    const { body } = await server.admin.rest("POST", "/api/v1/machine-identities", { name: "renewed" });
    const path = `/api/v1/machine-identities/${body.id}/client-secrets`;
    const { body: old } = await server.admin.rest("POST", path, {});
    const { body: fresh } = await server.admin.rest("POST", path, {});
    await server.admin.rest("DELETE", `${path}/${old.id}`);
    const login = bySecret(body.client_id);

    for (let attempt = 0; attempt < 15; attempt += 1) {
      expect((await login(old.client_secret)).body.error.code).to.equal("AUTH_INVALID");
    }

    expect((await login(fresh.client_secret)).status).to.equal(200);
  });

  it("is shut as a user is, at both ways in", async () => {
    const { body } = await server.admin.rest("POST", "/api/v1/machine-identities", { name: "guessed" });
    const { body: secret } = await server.admin.rest(
      "POST",
      `/api/v1/machine-identities/${body.id}/client-secrets`,
      {},
    );
    const login = bySecret(body.client_id);

    await failTimes(10, login);
    const form = new URLSearchParams({
      grant_type: "client_credentials",
      client_id: body.client_id,
      client_secret: secret.client_secret,
    });
    const oauth = await server.anonymous.rest("POST", "/oauth/token", form.toString(), {
      "content-type": "application/x-www-form-urlencoded",
    });

    expect(await pauseOf(login, secret.client_secret)).to.equal(1);
    expect(oauth.status).to.equal(429);
  });
});
