import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
} from "node:crypto";
import { expect } from "chai";
import { SignJWT } from "jose";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const server = useServer();
const encode = (plain: unknown) => Buffer.from(JSON.stringify(plain)).toString("base64url");

describe("A bearer token", () => {
  let privateKey: KeyObject;
  let organizationId = "";

  before(async () => {
    const pkcs8 = await server.server.core.seal.serviceKey("token-signing");
    privateKey = createPrivateKey({ key: pkcs8, type: "pkcs8", format: "der" });
    organizationId = (await server.admin.rest("GET", "/api/v1/organizations")).body.data[0].id;
  });

  const now = () => Math.floor(Date.now() / 1000);

  /** What the server itself would claim, with changes; undefined leaves a claim out. */
  function claims(changes: Record<string, unknown> = {}): Record<string, unknown> {
    const all = {
      iss: "holdfast",
      aud: "holdfast",
      sub: server.admin.id,
      sub_type: "machine_identity",
      org_id: organizationId,
      roles: ["admin"],
      amr: ["client_secret"],
      auth_time: now(),
      jti: randomUUID(),
      iat: now(),
      nbf: now(),
      exp: now() + 60,
      ...changes,
    };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  }

  const sign = (changes: Record<string, unknown> = {}, key: KeyObject = privateKey) =>
    new SignJWT(claims(changes)).setProtectedHeader({ alg: "EdDSA", typ: "JWT" }).sign(key);

  const use = (token: string) => new Client(server.url, token).rest("GET", "/api/v1/projects");

  async function codeOf(authorization: string | undefined): Promise<string> {
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    const {
      status,
      headers: answered,
      body,
    } = await server.anonymous.rest("GET", "/api/v1/projects", undefined, headers);
    if (status === 200) return "accepted";
    expect(status).to.equal(401);
    expect(body.error).to.have.all.keys("code", "message", "details", "request_id");
    const invalid = body.error.code === "AUTH_REQUIRED" ? "" : ', error="invalid_token"';
    expect(answered.get("www-authenticate")).to.equal(`Bearer realm="holdfast"${invalid}`);
    return body.error.code;
  }

  it("signed with the installation's key and in order is accepted", async () => {
    expect(await codeOf(`Bearer ${await sign()}`)).to.equal("accepted");
    expect(await codeOf(`bearer   ${await sign()}`)).to.equal("accepted");
  });

  it("that is missing or empty is AUTH_REQUIRED", async () => {
    for (const authorization of [undefined, "Bearer", "Bearer "]) {
      expect(await codeOf(authorization), authorization).to.equal("AUTH_REQUIRED");
    }
  });

  it("past its expiry is AUTH_EXPIRED, by a single second and also when it was used before", async () => {
    expect(await codeOf(`Bearer ${await sign({ exp: now() - 1 })}`)).to.equal("AUTH_EXPIRED");
    expect(await codeOf(`Bearer ${await sign({ exp: now() })}`)).to.equal("AUTH_EXPIRED");
    const exp = now() + 3;
    const short = await sign({ exp });
    const fresh = await use(short);
    while (Date.now() < exp * 1000) await new Promise((resolve) => setTimeout(resolve, exp * 1000 - Date.now()));
    expect(fresh.status).to.equal(200);
    expect((await use(short)).body.error.code).to.equal("AUTH_EXPIRED");
  });

  it("of another scheme, or no token at all, is AUTH_INVALID", async () => {
    const token = await sign();
    for (const authorization of [
      "Basic YTpi",
      `Token ${token}`,
      token,
      "Bearer x",
      "Bearer a.b.c",
      "Bearer ..",
      `Bearer ${token}x`,
      `Bearer ${token} ${token}`,
      `Bearer ${"x".repeat(5000)}`,
    ]) {
      expect(await codeOf(authorization), authorization.slice(0, 40)).to.equal("AUTH_INVALID");
    }
  });

  it("that anybody edited is AUTH_INVALID", async () => {
    const [header, payload, signature] = (await sign()).split(".") as [string, string, string];
    const edited = encode({ ...JSON.parse(Buffer.from(payload, "base64url").toString()), roles: ["admin"], x: 1 });
    const flipped = Buffer.from(signature, "base64url");
    flipped[10] = (flipped[10] as number) ^ 1;

    expect(await codeOf(`Bearer ${header}.${edited}.${signature}`)).to.equal("AUTH_INVALID");
    expect(await codeOf(`Bearer ${header}.${payload}.${flipped.toString("base64url")}`)).to.equal("AUTH_INVALID");
    expect(await codeOf(`Bearer ${header}.${payload}.`)).to.equal("AUTH_INVALID");
  });

  it("of another algorithm is AUTH_INVALID: none, and HS256 with the public key", async () => {
    const payload = encode(claims());
    const publicKey = createPublicKey(privateKey);
    const keys = [
      publicKey.export({ type: "spki", format: "der" }),
      Buffer.from(publicKey.export({ type: "spki", format: "pem" })),
      Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url"),
    ];
    const tokens = ["none", "None", "NONE"].map((alg) => `${encode({ alg, typ: "JWT" })}.${payload}.`);
    for (const key of keys) {
      const signed = `${encode({ alg: "HS256", typ: "JWT" })}.${payload}`;
      tokens.push(`${signed}.${createHmac("sha256", key).update(signed).digest("base64url")}`);
    }

    for (const token of tokens) expect(await codeOf(`Bearer ${token}`), token.slice(0, 30)).to.equal("AUTH_INVALID");
  });

  it("of another key is AUTH_INVALID, also one that it brings along", async () => {
    const stranger = generateKeyPairSync("ed25519");
    const jwk = stranger.publicKey.export({ format: "jwk" });
    const brought = await new SignJWT(claims())
      .setProtectedHeader({ alg: "EdDSA", typ: "JWT", jwk })
      .sign(stranger.privateKey);

    expect(await codeOf(`Bearer ${await sign({}, stranger.privateKey)}`)).to.equal("AUTH_INVALID");
    expect(await codeOf(`Bearer ${brought}`)).to.equal("AUTH_INVALID");
  });

  it("of a replica whose clock is a little ahead is accepted", async () => {
    expect(await codeOf(`Bearer ${await sign({ iat: now() + 10, nbf: now() + 10 })}`)).to.equal("accepted");
  });

  it("of another issuer, audience, time or without what it must have is AUTH_INVALID", async () => {
    const cases: Record<string, Record<string, unknown>> = {
      "another issuer": { iss: "https://elsewhere.example" },
      "no issuer": { iss: undefined },
      "another audience": { aud: "vault" },
      "no audience": { aud: undefined },
      "not yet valid": { nbf: now() + 60 },
      "no expiry": { exp: undefined },
      "no subject": { sub: undefined },
      "no id": { jti: undefined },
      "an unknown identity": { sub: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55" },
      "an expiry that is no number": { exp: "tomorrow" },
    };
    for (const [why, changes] of Object.entries(cases)) {
      expect(await codeOf(`Bearer ${await sign(changes)}`), why).to.equal("AUTH_INVALID");
    }
  });

  it("that is wrong in two ways is AUTH_INVALID rather than expired", async () => {
    const stranger = generateKeyPairSync("ed25519").privateKey;

    expect(await codeOf(`Bearer ${await sign({ exp: now() - 60 }, stranger)}`)).to.equal("AUTH_INVALID");
    expect(await codeOf(`Bearer ${await sign({ exp: now() - 60, aud: "vault" })}`)).to.equal("AUTH_INVALID");
  });

  it("gives what its identity holds now, not what it claims", async () => {
    const viewer = await server.as("pretender", ["viewer"]);
    const token = await sign({ sub: viewer.id, roles: ["admin", "gateway:admin"], permissions: ["identity:write"] });

    const { status } = await new Client(server.url, token).rest("POST", "/api/v1/projects", { name: "p" });

    expect(status).to.equal(403);
  });

  it("of a deleted or disabled identity is AUTH_INVALID", async () => {
    const [deleted, disabled] = [await server.as("leaver", ["viewer"]), await server.as("suspect", ["viewer"])];
    expect((await use(deleted.token ?? "")).status).to.equal(200);
    await server.admin.rest("DELETE", `/api/v1/machine-identities/${deleted.id}`);
    await server.sql("update machine_identity set status = 'disabled' where id = $1", [disabled.id]);

    expect(await codeOf(`Bearer ${deleted.token}`)).to.equal("AUTH_INVALID");
    expect(await codeOf(`Bearer ${disabled.token}`)).to.equal("AUTH_INVALID");
  });
});

describe("A role that is removed", () => {
  it("is gone with the next request on this replica, and within 5 seconds on another", async () => {
    const replica = await server.startReplica();
    const editor = await server.as("editor", ["editor"]);
    const elsewhere = new Client(urlOf(replica), editor.token);
    const create = (by: Client) =>
      by.rest("POST", "/api/v1/secrets", { project_id: server.projectId, key: `k-${Math.random()}`, value: "v" });
    const before = [await create(editor), await create(elsewhere)].map(({ status }) => status);

    await server.admin.rest("PUT", `/api/v1/machine-identities/${editor.id}`, { roles: ["viewer"] });
    const removedAt = Date.now();
    const here = await create(editor);
    let there = await create(elsewhere);
    while (there.status === 201 && Date.now() - removedAt < 5500) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      there = await create(elsewhere);
    }

    expect(before).to.deep.equal([201, 201]);
    expect(here.status).to.equal(403);
    expect(there.status).to.equal(403);
  });

  it("never turns the requests that are under way into errors", async () => {
    const roaming = await server.as("roaming", ["viewer"]);
    const path = `/api/v1/machine-identities/${roaming.id}`;

    const statuses = new Set<number>();
    for (let round = 0; round < 10; round += 1) {
      const [changed, ...reads] = await Promise.all([
        server.admin.rest("PUT", path, { roles: [round % 2 === 0 ? "editor" : "viewer"] }),
        ...Array.from({ length: 10 }, () => roaming.rest("GET", `/api/v1/secrets?project_id=${server.projectId}`)),
      ]);
      for (const { status } of [changed, ...reads]) statuses.add(status);
    }

    expect([...statuses]).to.deep.equal([200]);
  });
});
