import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { rfc5054Group3072 as group } from "../../../src/standards/srp.ts";
import { type Answer, Client } from "../../harness/client.ts";
import { beginLogin, passwordFields, tryPassword } from "../../harness/person.ts";
import { urlOf, useServer, usualPassword } from "../../harness/server.ts";

const server = useServer();
const universal = "/api/v1/auth/universal-auth/login";

let count = 0;
const newName = (kind = "user") => `${kind}-${(count += 1)}`;
const codeOf = ({ status, body }: Answer) => (status < 300 ? status : `${status} ${body.error.code}`);
const init = (username: string) => server.anonymous.rest("POST", "/api/v1/auth/srp/init", { username });
const verify = (request: object, by = server.anonymous) => by.rest("POST", "/api/v1/auth/srp/verify", request);
const eventsOf = ({ body }: Answer) =>
  server.sql(
    "select action, outcome, actor_type, actor_name, resource_type, resource_id, resource_name from audit_event where request_id = $1",
    [body.error.request_id],
  );

/** How many answers there are of each kind. */
function tally(answers: readonly Answer[]): Record<string, number> {
  const kinds: Record<string, number> = {};
  for (const answer of answers) kinds[codeOf(answer)] = (kinds[codeOf(answer)] ?? 0) + 1;
  return kinds;
}

describe("Guesses that are made at the same moment", () => {
  it("of a password are judged ten times and no more", async () => {
    const username = newName();
    await server.user(username);
    const { request } = await beginLogin(server.anonymous, username, "wrong");
    const guess = () => verify({ ...request, client_proof: randomBytes(32).toString("base64") });

    const answers = await Promise.all(Array.from({ length: 24 }, guess));

    expect(tally(answers)["401 AUTH_INVALID"]).to.be.at.most(10);
  });

  it("of a client secret too, at both ways in together", async () => {
    const client_id = newName("client");
    const guesses = Array.from({ length: 12 }, (_, guess) => [
      server.anonymous.rest("POST", universal, { client_id, client_secret: `guess-${guess}` }),
      server.anonymous.rest("POST", "/oauth/token", {
        grant_type: "client_credentials",
        client_id,
        client_secret: `other-${guess}`,
      }),
    ]);

    const answers = await Promise.all(guesses.flat());

    expect(tally(answers)["401 AUTH_INVALID"]).to.be.at.most(10);
  });

  it("shut the account they are for, and no other", async () => {
    const [shut, open] = [newName(), newName()];
    await server.user(open);
    const guesses = Array.from({ length: 12 }, () =>
      server.anonymous.rest("POST", universal, {
        client_id: shut,
        client_secret: "x",
      }),
    );

    const [login] = await Promise.all([tryPassword(server.anonymous, open, usualPassword), ...guesses]);

    expect(codeOf(login)).to.equal(200);
  });

  it("are counted for one name in whatever case it is written, and with blanks for another", async () => {
    const username = newName("mixed");
    for (let guess = 0; guess < 10; guess += 1) {
      await tryPassword(server.anonymous, guess % 2 === 0 ? username : username.toUpperCase(), "wrong");
    }

    expect(codeOf(await tryPassword(server.anonymous, username, "wrong"))).to.equal("429 RATE_LIMITED");
    for (const other of [` ${username}`, `${username}\n`, `${username}\u200b`, username.replace("i", "\u0131")]) {
      expect(codeOf(await init(other)), JSON.stringify(other)).to.equal("400 VALIDATION_ERROR");
    }
  });
});

describe("Logins of one client at the same moment", () => {
  it("are all served, in turn", async () => {
    const fields = { client_id: server.clientId, client_secret: server.clientSecret };

    const answers = await Promise.all(
      Array.from({ length: 12 }, () => server.anonymous.rest("POST", universal, fields)),
    );

    expect(tally(answers)).to.deep.equal({ 200: 12 });
  });
});

describe("A login that somebody else's bearer token comes along with", () => {
  it("belongs to nobody while its account is shut", async () => {
    const fields = { client_id: newName("client"), client_secret: "x" };
    for (let guess = 0; guess < 10; guess += 1) await server.anonymous.rest("POST", universal, fields);

    const answer = await server.admin.rest("POST", universal, fields);

    expect(codeOf(answer)).to.equal("429 RATE_LIMITED");
    expect(await eventsOf(answer)).to.deep.equal([]);
  });

  it("belongs to the user who is logging in, or enrolling", async () => {
    const username = newName();
    const { body: user } = await server.admin.rest("POST", "/api/v1/users", { username });
    const enrollment = {
      username,
      enrollment_token: user.enrollment_token,
      ...(await passwordFields(username, "one")),
    };

    const enrolled = await server.admin.rest("POST", "/api/v1/auth/srp/enroll", enrollment);
    const { request } = await beginLogin(server.admin, username, "one");
    const login = await verify(request, server.admin);

    expect([enrolled, login].map(codeOf)).to.deep.equal([201, 200]);
    const trail = await server.auditTrail();
    expect(trail.slice(-2)).to.deep.equal([`${username} user.enroll success`, `${username} auth.login success`]);
  });

  it("is counted by its address, as logins are", async () => {
    const replica = await server.startReplica({ RATE_LIMIT_AUTH: "3", RATE_LIMIT_API: "50" });
    const there = new Client(urlOf(replica), server.admin.token);
    const nobody = new Client(urlOf(replica), undefined);

    const answers = [];
    for (const by of [there, nobody, there, nobody]) answers.push(await by.rest("POST", universal, {}));

    expect(answers.map(codeOf)).to.deep.equal([...Array(3).fill("400 VALIDATION_ERROR"), "429 RATE_LIMITED"]);
    expect(answers[0]?.headers.get("x-ratelimit-limit")).to.equal("3");
    await server.server.core.redis.flushall();
  });
});

describe("A wrong enrollment token", () => {
  it("is recorded with the user whom it was tried for, and in the first organization when there is none", async () => {
    const username = newName();
    const { admin: theirs, organizationId } = await server.otherOrganization();
    const { body: user } = await theirs.rest("POST", "/api/v1/users", { username });
    const tryToken = async (name: string) =>
      server.anonymous.rest("POST", "/api/v1/auth/srp/enroll", {
        username: name,
        enrollment_token: "hfe_guess",
        ...(await passwordFields(name, "mine")),
      });

    const [known, unknown] = [await tryToken(username), await tryToken(newName("nobody"))];

    const event = { action: "user.enroll", outcome: "denied", actor_type: "anonymous", actor_name: null };
    expect(await eventsOf(known)).to.deep.equal([
      { ...event, resource_type: "user", resource_id: user.id, resource_name: username },
    ]);
    expect(await eventsOf(unknown)).to.deep.equal([
      { ...event, resource_type: "user", resource_id: null, resource_name: null },
    ]);
    const [{ organization_id: whose }] = await server.sql(
      "select organization_id from audit_event where request_id = $1",
      [known.body.error.request_id],
    );
    expect(whose).to.equal(organizationId);
    expect({ ...known.body.error, request_id: "" }).to.deep.equal({ ...unknown.body.error, request_id: "" });
  });
});

describe("The second step of a login with a password", () => {
  const encode = (number: bigint) => Buffer.from(number.toString(16).padStart(768, "0"), "hex").toString("base64");
  const forgive = (username: string) =>
    server.server.core.redis.del(`login-failures:user:${username}`, `login-pause:user:${username}`);

  it("is AUTH_INVALID for public keys of special values and for proofs of any length", async () => {
    const username = newName();
    await server.user(username);
    const keys = [1n, 2n, group.generator, group.prime / 2n, group.prime - 1n, group.prime - 2n].map(encode);
    const larger = Buffer.alloc(384, 0xff).toString("base64");
    for (const client_public_key of [...keys, "BQ==", larger]) {
      for (const length of [1, 20, 32, 33, 64]) {
        await init(username);
        const client_proof = randomBytes(length).toString("base64");

        expect(codeOf(await verify({ username, client_public_key, client_proof }))).to.equal("401 AUTH_INVALID");
      }
      await forgive(username);
    }
    expect(server.log).not.to.include("call failed unexpectedly");
  });

  it("is for the user who took the first one", async () => {
    const [alice, bob] = [newName(), newName()];
    await server.user(alice);
    await server.user(bob);
    const { request } = await beginLogin(server.anonymous, alice, usualPassword);
    await init(bob);

    expect(codeOf(await verify({ ...request, username: bob }))).to.equal("401 AUTH_INVALID");
    expect(codeOf(await verify(request))).to.equal(200);
  });

  it("takes nothing from Redis that this installation did not put there", async () => {
    const username = newName();
    await server.user(username);
    const { redis } = server.server.core;
    await redis.lpush(`srp:${username}`, "garbage", Buffer.alloc(500, 1).toString("base64"));

    const { request } = await beginLogin(server.anonymous, username, usualPassword);
    await redis.lpush(`srp:${username}`, Buffer.alloc(500, 1).toString("base64"));

    expect(codeOf(await verify(request))).to.equal(200);
    expect(codeOf(await verify(request))).to.equal("401 AUTH_INVALID");
    await redis.del(`srp:${username}`);
    await redis.set(`srp:${username}`, "another kind");
    expect(codeOf(await tryPassword(server.anonymous, username, usualPassword))).to.equal("401 AUTH_INVALID");
  });

  it("is not open for a user who was disabled after the first, even when enabled again with another password", async () => {
    const username = newName();
    const user = await server.user(username);
    const { request } = await beginLogin(server.anonymous, username, usualPassword);
    await server.admin.rest("POST", `/api/v1/users/${user.id}/disable`, {});

    const disabled = await verify(request);
    const again = await beginLogin(server.anonymous, username, usualPassword);
    await server.admin.rest("POST", `/api/v1/users/${user.id}/enable`, {});
    const { body: reset } = await server.admin.rest("POST", `/api/v1/users/${user.id}/reset-enrollment`, {});
    await server.anonymous.rest("POST", "/api/v1/auth/srp/enroll", {
      username,
      enrollment_token: reset.enrollment_token,
      ...(await passwordFields(username, "another")),
    });

    expect(codeOf(disabled)).to.equal("401 AUTH_INVALID");
    expect(codeOf(await verify(again.request))).to.equal("401 AUTH_INVALID");
  });

  it("keeps no more than four first steps of a user, however many there are", async function () {
    this.timeout(60_000);
    const username = newName("nobody");
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(Array.from({ length: 30 }, () => init(username)));
    }

    expect(await server.server.core.redis.llen(`srp:${username}`)).to.equal(4);
  });
});

describe("HTTP Basic at the token endpoint", () => {
  const form = "application/x-www-form-urlencoded";
  const basic = (credentials: string) =>
    server.anonymous.rest("POST", "/oauth/token", "grant_type=client_credentials", {
      "content-type": form,
      authorization: `Basic ${Buffer.from(credentials).toString("base64")}`,
    });

  it("with what cannot be stored, read or found is refused, never a server error", async () => {
    for (const [credentials, expected] of [
      ["a\0b:c", 400],
      ["a%00b:c", 400],
      ["%ff:c", 401],
      [`${"a".repeat(10_000)}:c`, 401],
      ["\u{1f600}:c", 401],
      ["a:b:c", 401],
      [":c", 400],
    ] as const) {
      expect((await basic(credentials)).status, credentials.slice(0, 10)).to.equal(expected);
    }
  });
});
