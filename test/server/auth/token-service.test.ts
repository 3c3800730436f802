import { expect } from "chai";
import { TokenService } from "../../../gen/ts/holdfast/auth/v1/token_service_pb.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const form = { "content-type": "application/x-www-form-urlencoded" };

const oauth = (body: string | Record<string, unknown>, headers: Record<string, string> = {}) =>
  server.anonymous.rest("POST", "/oauth/token", body, headers);
const formOf = (fields: Record<string, string>) => new URLSearchParams(fields).toString();
const universal = (body: unknown) => server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", body);
const credentials = () => ({ client_id: server.clientId, client_secret: server.clientSecret });
const basic = (id: string, secret: string) => ({
  authorization: `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString("base64")}`,
});
const grant_type = "client_credentials";
const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());

describe("A token", () => {
  it("comes for the form of OAuth 2.0, for JSON, for HTTP Basic and for universal auth, all alike", async () => {
    const { client_id, client_secret } = credentials();
    const answers = {
      form: await oauth(formOf({ grant_type, client_id, client_secret }), form),
      "form with scope": await oauth(formOf({ grant_type, client_id, client_secret, scope: "all" }), form),
      "form with charset": await oauth(formOf({ grant_type, client_id, client_secret }), {
        "content-type": "application/x-www-form-urlencoded; charset=UTF-8",
      }),
      json: await oauth({ grant_type, client_id, client_secret }),
      "json in camelCase": await oauth({ grantType: grant_type, clientId: client_id, clientSecret: client_secret }),
      basic: await oauth(formOf({ grant_type }), { ...form, ...basic(client_id, client_secret) }),
      universal: await universal({ client_id, client_secret }),
      "universal in camelCase": await universal({ clientId: client_id, clientSecret: client_secret }),
    };

    for (const [way, { status, headers, body }] of Object.entries(answers)) {
      expect(status, `${way} ${JSON.stringify(body)}`).to.equal(200);
      expect(body, way).to.have.all.keys("access_token", "token_type", "expires_in");
      expect(body, way).to.include({ token_type: "Bearer", expires_in: 3600 });
      expect(headers.get("cache-control"), way).to.equal("no-store");
      const { status: used } = await server.anonymous.rest("GET", "/api/v1/projects", undefined, {
        authorization: `Bearer ${body.access_token}`,
      });
      expect(used, way).to.equal(200);
    }
  });

  it("comes over gRPC too", async () => {
    const client = server.anonymous.grpc(TokenService);

    const answer = await client.loginUniversal({ clientId: server.clientId, clientSecret: server.clientSecret });
    client.close();

    expect(answer).to.include({ tokenType: "Bearer", expiresIn: 3600 });
  });

  it("says who, for whom, in which roles, how and until when, and no more", async () => {
    const { body } = await universal(credentials());

    const claims = claimsOf(body.access_token);
    const names = "iss aud sub sub_type org_id roles amr credential_version auth_time jti iat nbf exp";
    expect(claims).to.have.all.keys(names.split(" "));
    const [identity] = await server.sql("select organization_id from machine_identity where id = $1", [
      server.admin.id,
    ]);
    expect(claims).to.deep.include({
      aud: "holdfast",
      sub: server.admin.id,
      sub_type: "machine_identity",
      org_id: identity.organization_id,
      roles: ["admin", "gateway:admin"],
      amr: ["client_secret"],
    });
    expect(claims.exp - claims.iat).to.equal(3600);
    expect(claims.nbf).to.equal(claims.iat);
    expect(claims.auth_time).to.equal(claims.iat);
    const [header] = body.access_token.split(".");
    expect(JSON.parse(Buffer.from(header, "base64url").toString())).to.deep.equal({ alg: "EdDSA", typ: "JWT" });
  });

  it("is another one each time", async () => {
    const [first, second] = [await universal(credentials()), await universal(credentials())];

    expect(claimsOf(first.body.access_token).jti).not.to.equal(claimsOf(second.body.access_token).jti);
  });
});

describe("A login", () => {
  it("without a field is 400 and names every one that is missing", async () => {
    const { client_id, client_secret } = credentials();
    const cases: [
      string[],
      Promise<{ status: number; body: { error: { code: string; details: { field: string }[] } } }>,
    ][] = [
      [["grant_type"], oauth(formOf({ client_id, client_secret }), form)],
      [["grant_type"], oauth(formOf({ grant_type: "", client_id, client_secret }), form)],
      [["grant_type"], oauth(formOf({ grant_type: "password", client_id, client_secret }), form)],
      [["grant_type"], oauth({ grant_type: "authorization_code", client_id, client_secret })],
      [["client_id"], oauth(formOf({ grant_type, client_secret }), form)],
      [["client_secret"], oauth(formOf({ grant_type, client_id }), form)],
      [["client_id", "client_secret"], oauth(formOf({ grant_type }), form)],
      [["client_secret"], oauth(formOf({ grant_type }), { ...form, ...basic(client_id, "") })],
      [["client_id"], universal({ client_secret })],
      [["client_secret"], universal({ client_id })],
      [["client_secret"], universal({ client_id, client_secret: "" })],
      [["client_id", "client_secret"], universal({})],
      [["client_secret"], universal({ client_id, client_secret: 5 })],
      [["client_secret"], universal({ client_id, client_secret: "s".repeat(1025) })],
    ];
    for (const [fields, answer] of cases) {
      const { status, body } = await answer;
      expect(status, fields.join()).to.equal(400);
      expect(body.error.code).to.equal("VALIDATION_ERROR");
      expect(body.error.details.map(({ field }) => field)).to.deep.equal(fields);
    }
  });

  it("with a wrong secret or client id is 401 AUTH_INVALID in our own shape, telling neither which", async () => {
    const { client_id, client_secret } = credentials();
    const answers = [
      await oauth(formOf({ grant_type, client_id, client_secret: "wrong" }), form),
      await oauth(formOf({ grant_type, client_id: "wrong", client_secret }), form),
      await oauth(formOf({ grant_type }), { ...form, ...basic(client_id, "wrong") }),
      await universal({ client_id, client_secret: `${client_secret}x` }),
      await universal({ client_id: client_id.toUpperCase(), client_secret }),
      await universal({ client_id: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55", client_secret }),
      await universal({ client_id: "' or true --", client_secret: "%" }),
    ];
    for (const { status, headers, body } of answers) {
      expect(status).to.equal(401);
      expect(body).to.have.all.keys("error");
      expect(body.error).to.have.all.keys("code", "message", "details", "request_id");
      expect(body.error).to.include({ code: "AUTH_INVALID", message: "client id or secret is wrong" });
      expect(headers.get("www-authenticate")).to.equal('Bearer realm="holdfast", error="invalid_token"');
    }
  });

  it("with a malformed Basic header is refused, never a server error", async () => {
    for (const authorization of [
      "Basic",
      "Basic !!!",
      "Basic ====",
      `Basic ${Buffer.from("%zz:%zz").toString("base64")}`,
    ]) {
      const { status } = await oauth(formOf({ grant_type }), { ...form, authorization });
      expect(status, authorization).to.be.oneOf([400, 401]);
    }
  });

  it("is recorded when it succeeds and when it fails, with the identity where there is one", async () => {
    await universal({ client_id: server.clientId, client_secret: "wrong" });
    await universal({ client_id: "nobody", client_secret: "wrong" });
    await universal(credentials());

    const rows = await server.sql(
      "select action, outcome, actor_type, actor_id, resource_id, reason from audit_event where action like 'auth.%' order by occurred_at desc, id desc limit 3",
    );
    const anonymous = { actor_type: "anonymous", actor_id: null, outcome: "denied", reason: "AUTH_INVALID" };
    expect(rows.reverse()).to.deep.equal([
      { action: "auth.login_failed", ...anonymous, resource_id: server.admin.id },
      { action: "auth.login_failed", ...anonymous, resource_id: null },
      {
        action: "auth.login",
        outcome: "success",
        actor_type: "machine_identity",
        actor_id: server.admin.id,
        resource_id: server.admin.id,
        reason: null,
      },
    ]);
  });

  it("at another organization's client with our own token tells us nothing about that client", async () => {
    const { admin: eve, organizationId } = await server.otherOrganization();
    const [theirs] = await server.sql("select client_id from machine_identity where id = $1", [eve.id]);

    const answer = await server.admin.rest("POST", "/api/v1/auth/universal-auth/login", {
      client_id: theirs.client_id,
      client_secret: "wrong",
    });

    expect(answer.status).to.equal(401);
    const [event] = await server.sql("select organization_id, actor_type from audit_event where request_id = $1", [
      answer.body.error.request_id,
    ]);
    expect(event).to.deep.equal({ organization_id: organizationId, actor_type: "anonymous" });
  });

  it("notes when the identity last authenticated", async () => {
    const { body: identity } = await server.admin.rest("POST", "/api/v1/machine-identities", { name: "sleeper" });
    const path = `/api/v1/machine-identities/${identity.id}`;
    const { body: secret } = await server.admin.rest("POST", `${path}/client-secrets`, {});

    await universal({ client_id: identity.client_id, client_secret: secret.client_secret });

    const { body } = await server.admin.rest("GET", path);
    expect(identity.last_authenticated_at).to.equal(null);
    expect(Math.abs(Date.parse(body.last_authenticated_at) - Date.now())).to.be.lessThan(60_000);
  });
});

describe("The life of a token", () => {
  it("is the identity's own where that is shorter than the installation's", async () => {
    for (const [access_token_ttl_seconds, expected] of [
      [60, 60],
      [86_400, 3600],
      [null, 3600],
    ]) {
      const { body: identity } = await server.admin.rest("POST", "/api/v1/machine-identities", {
        name: `ttl-${access_token_ttl_seconds}`,
        access_token_ttl_seconds,
      });
      const path = `/api/v1/machine-identities/${identity.id}/client-secrets`;
      const { body: secret } = await server.admin.rest("POST", path, {});

      const { body } = await universal({ client_id: identity.client_id, client_secret: secret.client_secret });

      expect(body.expires_in).to.equal(expected);
      const { exp, iat } = claimsOf(body.access_token);
      expect(exp - iat).to.equal(expected);
    }
  });
});
