import { createHash } from "node:crypto";
import { expect } from "chai";
import { rfc5054Group3072 as group } from "../../../src/standards/srp.ts";
import { Client } from "../../harness/client.ts";
import { beginLogin, loginAs, passwordFields, tryPassword } from "../../harness/person.ts";
import { urlOf, useServer, usualPassword } from "../../harness/server.ts";

const server = useServer();
const init = (username: string) => server.anonymous.rest("POST", "/api/v1/auth/srp/init", { username });
const verify = (request: object, at = server.anonymous) => at.rest("POST", "/api/v1/auth/srp/verify", request);
const enroll = (fields: object) => server.anonymous.rest("POST", "/api/v1/auth/srp/enroll", fields);
const newUser = async (username: string, roles: string[] = []) =>
  (await server.admin.rest("POST", "/api/v1/users", { username, roles })).body;
const summary = ({
  status,
  body,
}: {
  status: number;
  body: { error?: { code: string; details: { field: string }[] } };
}) => [status, body.error?.code, ...(body.error?.details.map(({ field }) => field) ?? [])].join(" ");

describe("GET /auth/srp/parameters", () => {
  it("tells anybody what a client computes with", async () => {
    const { status, body } = await server.anonymous.rest("GET", "/api/v1/auth/srp/parameters");

    expect(status).to.equal(200);
    expect(body).to.include({
      group: "rfc5054-3072",
      generator: 5,
      hash: "SHA-256",
      pad_bytes: 384,
      encoding: "base64",
    });
    expect(BigInt(`0x${body.prime}`)).to.equal(group.prime);
    expect(createHash("sha256").update(Buffer.from(body.prime, "hex")).digest("hex")).to.equal(
      "48cf8b092fbce4359d9871abf74f98e25b6163379eaa15cd9087e800c6d1c55c",
    );
    expect(body.formulas).to.have.all.keys("k", "x", "verifier", "u", "session_key", "client_proof", "server_proof");
  });
});

describe("A login with a password", () => {
  before(() => server.user("alice", { roles: ["viewer"] }));

  it("takes two steps, and each side proves itself", async () => {
    const begun = await init("alice");
    const { status, body } = await tryPassword(server.anonymous, "alice", usualPassword);

    expect(begun.status).to.equal(200);
    expect(begun.body).to.have.all.keys("salt", "server_public_key");
    expect(Buffer.from(begun.body.server_public_key, "base64")).to.have.length(384);
    expect(status).to.equal(200);
    expect(body).to.have.all.keys("access_token", "token_type", "expires_in", "server_proof");
    expect(body).to.include({ token_type: "Bearer", expires_in: 3600 });
    const claims = JSON.parse(Buffer.from(body.access_token.split(".")[1], "base64url").toString());
    expect(claims).to.deep.include({ sub_type: "user", aud: "holdfast", roles: ["viewer"], amr: ["srp"] });
    expect((await new Client(server.url, body.access_token).rest("GET", "/api/v1/projects")).status).to.equal(200);
  });

  it("takes the username in any case", async () => {
    expect((await tryPassword(server.anonymous, "ALICE", usualPassword)).status).to.equal(200);
  });

  it("takes Base64 of either alphabet, with and without padding", async () => {
    const { request } = await beginLogin(server.anonymous, "alice", usualPassword);
    const urlSafe = (text: string) => text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

    const answer = await verify({
      username: "alice",
      client_public_key: urlSafe(request.client_public_key),
      client_proof: urlSafe(request.client_proof),
    });

    expect(answer.status).to.equal(200);
  });

  it("can begin at one replica and end at another", async () => {
    const replica = await server.startReplica();
    const { request } = await beginLogin(server.anonymous, "alice", usualPassword);

    expect((await verify(request, new Client(urlOf(replica), undefined))).status).to.equal(200);
  });

  it("does not break another one of the same user that goes on beside it", async () => {
    const begun = await Promise.all(
      Array.from({ length: 4 }, () => beginLogin(server.anonymous, "alice", usualPassword)),
    );

    const answers = await Promise.all(begun.map(({ request }) => verify(request)));

    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 200, 200]);
  });

  it("has at most four open beside each other: the oldest gives way", async () => {
    const begun = [];
    for (let count = 0; count < 5; count += 1) begun.push(await beginLogin(server.anonymous, "alice", usualPassword));

    expect((await verify(begun[1]?.request ?? {})).status).to.equal(200);
    expect((await verify(begun[0]?.request ?? {})).status).to.equal(401);
  });

  it("ends once: the same proof again is refused", async () => {
    const { request } = await beginLogin(server.anonymous, "alice", usualPassword);

    expect((await verify(request)).status).to.equal(200);
    expect(summary(await verify(request))).to.equal("401 AUTH_INVALID");
  });

  it("ends once also when two try at the same moment", async () => {
    const { request } = await beginLogin(server.anonymous, "alice", usualPassword);

    const answers = await Promise.all(Array.from({ length: 8 }, () => verify(request)));

    expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
  });

  it("is over after a wrong proof", async () => {
    const { request } = await beginLogin(server.anonymous, "alice", usualPassword);
    const wrong = { ...request, client_proof: Buffer.alloc(32).toString("base64") };

    expect(summary(await verify(wrong))).to.equal("401 AUTH_INVALID");
    expect(summary(await verify(request))).to.equal("401 AUTH_INVALID");
  });

  it("is over after two minutes", async () => {
    const { request } = await beginLogin(server.anonymous, "alice", usualPassword);
    const { redis } = server.server.core;

    expect(await redis.pttl("srp:alice")).to.be.within(100_000, 120_000);
    await redis.del("srp:alice");

    expect(summary(await verify(request))).to.equal("401 AUTH_INVALID");
  });

  it("keeps nothing in Redis that could be read there", async () => {
    const { request } = await beginLogin(server.anonymous, "alice", usualPassword);
    const kept = await server.server.core.redis.lrange("srp:alice", 0, -1);

    expect(kept).not.to.have.length(0);
    for (const sealed of kept) {
      const begun = await init("alice");
      expect(Buffer.from(sealed, "base64").includes(Buffer.from(begun.body.server_public_key, "base64"))).to.equal(
        false,
      );
      expect(sealed).not.to.include(request.client_public_key.slice(0, 20));
    }
  });

  it("is refused for public keys that are 0 modulo N, or not below N, whatever the proof", async () => {
    const encode = (number: bigint) => Buffer.from(number.toString(16).padStart(768, "0"), "hex").toString("base64");
    await server.user("zero");
    const proof = (await beginLogin(server.anonymous, "zero", usualPassword)).request.client_proof;

    for (const publicKey of [encode(0n), "AA==", encode(group.prime), encode(group.prime + 1n), encode(1n)]) {
      await init("zero");
      const answer = await verify({ username: "zero", client_public_key: publicKey, client_proof: proof });
      expect(summary(answer)).to.equal("401 AUTH_INVALID");
    }
  });

  it("names what is missing, too long or no Base64", async () => {
    const good = { username: "alice", client_public_key: "AQ==", client_proof: "AQ==" };

    expect(summary(await verify({}))).to.equal("400 VALIDATION_ERROR username client_public_key client_proof");
    expect(summary(await verify({ ...good, client_public_key: "*" }))).to.equal(
      "400 VALIDATION_ERROR client_public_key",
    );
    const tooLong = Buffer.alloc(385).toString("base64");
    expect(summary(await verify({ ...good, client_public_key: tooLong }))).to.equal(
      "400 VALIDATION_ERROR client_public_key",
    );
    expect(summary(await verify({ ...good, client_proof: Buffer.alloc(65).toString("base64") }))).to.equal(
      "400 VALIDATION_ERROR client_proof",
    );
    expect(summary(await init("a b"))).to.equal("400 VALIDATION_ERROR username");
    expect(summary(await init("x".repeat(256)))).to.equal("400 VALIDATION_ERROR username");
  });

  it("goes on while Redis is away, at the replica where it began", async () => {
    const replica = await server.startReplica({ REDIS_URL: "redis://127.0.0.1:1" });
    const there = new Client(urlOf(replica), undefined);
    const { request } = await beginLogin(there, "alice", usualPassword);

    expect((await verify(request, there)).status).to.equal(200);
    expect((await verify(request, there)).status).to.equal(401);
  });

  it("is written down, with who or as nobody's", async () => {
    await tryPassword(server.anonymous, "alice", usualPassword);
    await tryPassword(server.anonymous, "alice", "wrong");
    await tryPassword(server.anonymous, "nobody-here", "wrong");

    const trail = await server.auditTrail();

    expect(trail.slice(-3)).to.deep.equal([
      "alice auth.login success",
      "anonymous auth.login_failed denied",
      "anonymous auth.login_failed denied",
    ]);
    const log = await server.admin.rest("GET", "/api/v1/audit-logs?action=auth.login_failed&per_page=2");
    expect(log.body.data.map(({ resource }: { resource: { name: string } }) => resource.name)).to.deep.equal([
      null,
      "alice",
    ]);
  });
});

describe("A username that nobody has", () => {
  it("is answered like one that somebody has: the same salt each time, another public key each time", async () => {
    const [one, two] = [await init("ghost"), await init("GHOST")];
    const other = await init("phantom");

    expect(one.body.salt).to.equal(two.body.salt);
    expect(one.body.salt).not.to.equal(other.body.salt);
    const salts = [one, await init("alice"), await init("admin")].map(({ body }) => Buffer.from(body.salt, "base64"));
    expect(new Set(salts.map(({ length }) => length)).size, "lengths of salts").to.equal(1);
    expect(one.body.server_public_key).not.to.equal(two.body.server_public_key);
    expect(Buffer.from(one.body.server_public_key, "base64")).to.have.length(384);
  });

  it("fails at the end in the same words as a wrong password, a pending and a disabled user", async () => {
    await server.user("bob");
    const { id } = await newUser("pending");
    const disabled = await server.user("disabled");
    await server.admin.rest("POST", `/api/v1/users/${disabled.id}/disable`);
    const plain = (answer: { status: number; body: object }) =>
      JSON.stringify([answer.status, answer.body]).replace(/"request_id":"[^"]*"/, "");

    const answers = [];
    for (const [username, password] of [
      ["bob", "wrong"],
      ["ghost", "wrong"],
      ["pending", "wrong"],
      ["disabled", usualPassword],
    ] as const) {
      answers.push(plain(await tryPassword(server.anonymous, username, password)));
    }

    expect(id).not.to.equal(undefined);
    expect(new Set(answers).size, answers.join("\n")).to.equal(1);
    expect(answers[0]).to.include("AUTH_INVALID");
  });
});

describe("Enrollment", () => {
  it("sets the password by the token, once, and makes the user active", async () => {
    const user = await newUser("carol", ["viewer"]);
    const fields = {
      username: "Carol",
      enrollment_token: user.enrollment_token,
      ...(await passwordFields("carol", "one")),
    };

    const enrolled = await enroll(fields);

    expect(user.status).to.equal("pending");
    expect([enrolled.status, enrolled.body]).to.deep.equal([201, { username: "carol" }]);
    expect((await server.admin.rest("GET", `/api/v1/users/${user.id}`)).body.status).to.equal("active");
    expect((await loginAs(server.anonymous, "carol", "one")).id).to.equal(user.id);
    expect(summary(await enroll(fields))).to.equal("401 AUTH_INVALID");
  });

  it("is refused with a wrong token, another's token, or one that has expired", async () => {
    const { enrollment_token: token } = await newUser("dave");
    const { enrollment_token: other } = await newUser("erin");
    const fields = await passwordFields("dave", "one");
    await server.sql("update user_account set enrollment_expires_at = now() where username = 'erin'");

    expect(summary(await enroll({ username: "dave", enrollment_token: `${token}x`, ...fields }))).to.equal(
      "401 AUTH_INVALID",
    );
    expect(summary(await enroll({ username: "dave", enrollment_token: other, ...fields }))).to.equal(
      "401 AUTH_INVALID",
    );
    expect(summary(await enroll({ username: "ghost", enrollment_token: token, ...fields }))).to.equal(
      "401 AUTH_INVALID",
    );
    expect(summary(await enroll({ username: "erin", enrollment_token: other, ...fields }))).to.equal(
      "401 AUTH_EXPIRED",
    );
  });

  it("takes a salt of 16 to 64 bytes and a verifier that a password can have", async () => {
    const { enrollment_token: token } = await newUser("frank");
    const good = await passwordFields("frank", "one");
    const tried = async (fields: object) =>
      summary(await enroll({ username: "frank", enrollment_token: token, ...good, ...fields }));

    expect(await tried({ salt: Buffer.alloc(15).toString("base64") })).to.equal("400 VALIDATION_ERROR salt");
    expect(await tried({ salt: Buffer.alloc(65).toString("base64") })).to.equal("400 VALIDATION_ERROR salt");
    expect(await tried({ verifier: "AA==" })).to.equal("400 VALIDATION_ERROR verifier");
    expect(await tried({ verifier: "AQ==" })).to.equal("400 VALIDATION_ERROR verifier");
    const prime = Buffer.from(group.prime.toString(16), "hex").toString("base64");
    expect(await tried({ verifier: prime })).to.equal("400 VALIDATION_ERROR verifier");
    expect(await tried({ verifier: Buffer.alloc(385, 1).toString("base64") })).to.equal(
      "400 VALIDATION_ERROR verifier",
    );
  });

  it("anew, after a reset, replaces the password and ends what was logged in", async () => {
    const before = await server.user("grace");
    const reset = await server.admin.rest("POST", `/api/v1/users/${before.id}/reset-enrollment`);
    expect((await before.rest("GET", "/api/v1/whoami")).status).to.equal(200);

    await enroll({
      username: "grace",
      enrollment_token: reset.body.enrollment_token,
      ...(await passwordFields("grace", "new password")),
    });

    expect(summary(await before.rest("GET", "/api/v1/whoami"))).to.equal("401 AUTH_INVALID");
    expect((await tryPassword(server.anonymous, "grace", usualPassword)).status).to.equal(401);
    expect((await tryPassword(server.anonymous, "grace", "new password")).status).to.equal(200);
  });

  it("keeps the verifier sealed", async () => {
    const { enrollment_token: token } = await newUser("heidi");
    const fields = await passwordFields("heidi", "one");
    await enroll({ username: "heidi", enrollment_token: token, ...fields });

    const [row] = await server.sql("select srp_verifier, srp_group from user_account where username = 'heidi'");

    expect(row.srp_group).to.equal("rfc5054-3072");
    expect(row.srp_verifier.includes(Buffer.from(fields.verifier, "base64").subarray(0, 32))).to.equal(false);
  });
});

describe("A change of password", () => {
  const change = async (by: Client, username: string, password: string) =>
    by.rest("PUT", "/api/v1/users/me/srp", await passwordFields(username, password));

  it("ends the other tokens and sessions of the user, on every replica, but not the one that made it", async () => {
    const replica = await server.startReplica();
    const one = await server.user("ivan");
    const other = await loginAs(server.anonymous, "ivan", usualPassword);
    const elsewhere = new Client(urlOf(replica), other.token);
    expect((await elsewhere.rest("GET", "/api/v1/whoami")).status).to.equal(200);

    const { status, body } = await change(one, "ivan", "another password");

    expect([status, body]).to.deep.equal([200, { username: "ivan" }]);
    expect((await one.rest("GET", "/api/v1/whoami")).status).to.equal(200);
    expect(summary(await other.rest("GET", "/api/v1/whoami"))).to.equal("401 AUTH_INVALID");
    expect(summary(await elsewhere.rest("GET", "/api/v1/whoami"))).to.equal("401 AUTH_INVALID");
    expect((await tryPassword(server.anonymous, "ivan", usualPassword)).status).to.equal(401);
    const after = await loginAs(server.anonymous, "ivan", "another password");
    expect((await after.rest("GET", "/api/v1/whoami")).status).to.equal(200);
  });

  it("takes a login of the last five minutes, and no API token", async () => {
    const judy = await server.user("judy");
    const { body: token } = await judy.rest("POST", "/api/v1/api-tokens", { name: "t" });
    const late = await judy.rest("POST", "/api/v1/auth/session");
    await server.sql("update session set expires_at = expires_at - interval '6 minutes'"); // so old is its login then
    const session = new Client(server.url, undefined, "", {
      cookie: late.headers.getSetCookie()[0]?.split(";")[0] ?? "",
      "x-csrf-token": late.body.csrf_token,
    });

    expect(summary(await change(new Client(server.url, token.token), "judy", "new"))).to.equal("403 PERMISSION_DENIED");
    expect(summary(await change(session, "judy", "new"))).to.equal("403 PERMISSION_DENIED");
    expect((await change(judy, "judy", "new")).status).to.equal(200);
  });

  it("is nothing that a machine identity can do", async () => {
    expect(summary(await change(server.admin, "administrator", "new"))).to.equal("404 RESOURCE_NOT_FOUND");
  });
});
