import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/auth/session";

/** A browser: it sends the cookies that it was given, and whatever else a test says. */
interface Browser {
  readonly cookie: string;
  readonly csrfToken: string;
  readonly setCookies: string[];
  readonly id: string;
  rest: Client["rest"];
}

async function newBrowser(by?: Client, url = server.url): Promise<Browser> {
  const user = by ?? (await server.login(server.clientId, server.clientSecret));
  const { status, headers, body } = await user.rest("POST", path);
  expect(status).to.equal(201);
  const setCookies = headers.getSetCookie();
  const cookie = setCookies.map((each) => each.split(";")[0]).join("; ");
  const nobody = new Client(url, undefined);
  const rest: Client["rest"] = (method, target, sent, more) => nobody.rest(method, target, sent, { cookie, ...more });
  const { credential } = (await rest("GET", "/api/v1/whoami")).body;
  return { cookie, csrfToken: body.csrf_token, setCookies, id: credential.id, rest };
}

describe("A session", () => {
  it("is begun with an access token, and comes in a cookie that no script reads and one that scripts read", async () => {
    const { status, headers, body } = await server.admin.rest("POST", path);
    const [session = "", csrf = ""] = headers.getSetCookie();

    expect(status).to.equal(201);
    expect(body).to.have.all.keys("csrf_token", "expires_at");
    expect(Math.round((Date.parse(body.expires_at) - Date.now()) / 3_600_000)).to.equal(12);
    expect(session).to.match(
      /^holdfast_session=hfs_[\w-]{43}; HttpOnly; Secure; SameSite=Strict; Path=\/; Max-Age=43200$/,
    );
    expect(csrf).to.equal(`holdfast_csrf=${body.csrf_token}; Secure; SameSite=Strict; Path=/; Max-Age=43200`);
  });

  it("stands for the identity that began it", async () => {
    const browser = await newBrowser();

    const { status, body } = await browser.rest("GET", "/api/v1/whoami");

    expect(status).to.equal(200);
    expect(body).to.deep.include({ id: server.admin.id, name: "administrator" });
    expect(body.credential.type).to.equal("session");
    expect((await browser.rest("GET", "/api/v1/auth/csrf-token")).body).to.deep.equal({
      csrf_token: browser.csrfToken,
    });
  });

  it("is begun by no API token and by no other session", async () => {
    const { body: token } = await server.admin.rest("POST", "/api/v1/api-tokens", { name: "t" });
    const browser = await newBrowser();

    const byToken = await new Client(server.url, token.token).rest("POST", path);
    const bySession = await browser.rest("POST", path, {}, { "x-csrf-token": browser.csrfToken });

    for (const { status, body } of [byToken, bySession]) {
      expect([status, body.error.code]).to.deep.equal([403, "PERMISSION_DENIED"]);
    }
  });

  it("is stored as a keyed hash only", async () => {
    const browser = await newBrowser();

    const [row] = await server.sql("select * from session where id = $1", [browser.id]);

    expect(row.hash).to.have.length(32);
    expect(browser.cookie).not.to.include(row.hash.toString("base64url"));
  });

  it("is ignored beside an Authorization header", async () => {
    const browser = await newBrowser();

    const bad = await browser.rest("GET", "/api/v1/whoami", undefined, { authorization: "Bearer nonsense" });
    const empty = await browser.rest("GET", "/api/v1/whoami", undefined, { authorization: "Bearer" });

    expect(bad.body.error.code).to.equal("AUTH_INVALID");
    expect(empty.body.error.code).to.equal("AUTH_REQUIRED");
  });

  it("ends by DELETE, on every replica at once", async () => {
    const replica = await server.startReplica();
    for (let round = 0; round < 10; round += 1) {
      const browser = await newBrowser();
      const { cookie } = browser;
      const there = () => new Client(urlOf(replica), undefined).rest("GET", "/api/v1/whoami", undefined, { cookie });
      expect((await there()).status).to.equal(200);

      const ended = await browser.rest("DELETE", path, undefined, { "x-csrf-token": browser.csrfToken });

      expect(ended.status).to.equal(204);
      expect(ended.headers.getSetCookie().map((each) => each.split(";")[0])).to.deep.equal([
        "holdfast_session=",
        "holdfast_csrf=",
      ]);
      expect((await there()).body.error.code).to.equal("AUTH_INVALID");
    }
  });

  it("is not there to end for a bearer", async () => {
    expect((await server.admin.rest("DELETE", path)).status).to.equal(404);
  });

  it("ends after 30 minutes without use, and after 12 hours whatever its use", async () => {
    const idle = await newBrowser();
    const old = await newBrowser();
    const fresh = await newBrowser();
    await server.sql("update session set last_used_at = now() - interval '30 minutes' where id = $1", [idle.id]);
    await server.sql("update session set last_used_at = now() - interval '29 minutes' where id = $1", [fresh.id]);
    await server.sql("update session set expires_at = now() where id = $1", [old.id]);
    const replica = await server.startReplica(); // which remembers nothing yet
    const codeOf = async (browser: Browser) => {
      const client = new Client(urlOf(replica), undefined);
      return (await client.rest("GET", "/api/v1/whoami", undefined, { cookie: browser.cookie })).body.error?.code;
    };

    expect(await codeOf(idle)).to.equal("AUTH_EXPIRED");
    expect(await codeOf(old)).to.equal("AUTH_EXPIRED");
    expect(await codeOf(fresh)).to.equal(undefined);
  });

  it("is AUTH_INVALID when the cookie is none of ours", async () => {
    const { status, body } = await server.anonymous.rest("GET", "/api/v1/whoami", undefined, {
      cookie: "other=1; holdfast_session=hfs_nonsense",
    });

    expect([status, body.error.code]).to.deep.equal([401, "AUTH_INVALID"]);
  });

  it("ends with the access of its identity", async () => {
    const identity = await server.as("session-holder", ["viewer"]);
    const browser = await newBrowser(identity);
    const path = `/api/v1/machine-identities/${identity.id}`;

    await server.admin.rest("POST", `${path}/disable`);
    const disabled = await browser.rest("GET", "/api/v1/whoami");
    await server.admin.rest("POST", `${path}/enable`);
    const enabled = await browser.rest("GET", "/api/v1/whoami");

    expect(disabled.body.error.code).to.equal("AUTH_INVALID");
    expect(enabled.body.error.code).to.equal("AUTH_INVALID");
  });
});

describe("A request of a session that may change something", () => {
  let browser: Browser;
  before(async () => {
    browser = await newBrowser();
  });

  const create = (headers: Record<string, string>) =>
    browser.rest("POST", "/api/v1/projects", { name: `p-${Math.random()}` }, headers);
  const codeOf = async (headers: Record<string, string>) => {
    const { status, body } = await create(headers);
    return status === 201 ? 201 : `${status} ${body.error.code}`;
  };

  it("must carry the session's X-CSRF-Token", async () => {
    const other = await newBrowser();

    expect(await codeOf({ "x-csrf-token": browser.csrfToken })).to.equal(201);
    expect(await codeOf({})).to.equal("403 CSRF_INVALID");
    expect(await codeOf({ "x-csrf-token": "" })).to.equal("403 CSRF_INVALID");
    expect(await codeOf({ "x-csrf-token": other.csrfToken })).to.equal("403 CSRF_INVALID");
    expect(await codeOf({ "x-csrf-token": browser.csrfToken.slice(0, -1) })).to.equal("403 CSRF_INVALID");
  });

  it("must name no foreign Origin", async () => {
    const withOrigin = (origin: string) => codeOf({ "x-csrf-token": browser.csrfToken, origin });

    expect(await withOrigin(server.url)).to.equal(201);
    expect(await withOrigin("https://evil.example")).to.equal("403 CSRF_INVALID");
    expect(await withOrigin("null")).to.equal("403 CSRF_INVALID");
    expect(await withOrigin(server.url.replace(/:\d+$/, ":1"))).to.equal("403 CSRF_INVALID");
  });

  it("is refused after 401 and before 403 of permissions, whatever the body", async () => {
    const viewer = await newBrowser(await server.as("csrf-viewer", ["viewer"]));

    const early = await viewer.rest("POST", "/api/v1/projects", "{", { "content-type": "text/plain" });
    const late = await viewer.rest("POST", "/api/v1/projects", {}, { "x-csrf-token": viewer.csrfToken });

    expect(early.body.error.code).to.equal("CSRF_INVALID");
    expect(late.body.error.code).to.equal("PERMISSION_DENIED");
  });

  it("is not asked for the token when a bearer makes it, or when it only reads", async () => {
    expect((await server.admin.rest("POST", "/api/v1/projects", { name: "by bearer" })).status).to.equal(201);
    expect((await browser.rest("GET", "/api/v1/projects")).status).to.equal(200);
    expect((await browser.rest("HEAD", "/api/v1/projects")).status).to.equal(200);
  });

  it("is held to it over Connect too, where every call is a POST", async () => {
    const call = (headers: Record<string, string>) =>
      browser.rest("POST", "/holdfast.auth.v1.SessionService/WhoAmI", {}, headers);

    expect((await call({})).status).to.equal(403);
    expect((await call({ "x-csrf-token": browser.csrfToken })).body.name).to.equal("administrator");
  });

  it("is compared with the public URL, when there is one", async () => {
    const replica = await server.startReplica({ PUBLIC_URL: "https://holdfast.example:8443/somewhere" });
    // Tokens name their issuer, which is the public URL: this session begins there.
    const there = await server.login(server.clientId, server.clientSecret, urlOf(replica));
    const elsewhere = await newBrowser(there, urlOf(replica));
    const withOrigin = async (origin: string) => {
      const headers = { "x-csrf-token": elsewhere.csrfToken, origin };
      return (await elsewhere.rest("POST", "/api/v1/projects", { name: `p-${Math.random()}` }, headers)).status;
    };

    expect(await withOrigin("https://holdfast.example:8443")).to.equal(201);
    expect(await withOrigin("http://holdfast.example:8443")).to.equal(403);
    expect(await withOrigin(urlOf(replica))).to.equal(403);
  });
});

describe("Logout", () => {
  it("ends the access token that it was made with, on every replica at once", async () => {
    const replica = await server.startReplica();
    for (let round = 0; round < 10; round += 1) {
      const client = await server.login(server.clientId, server.clientSecret);
      const there = new Client(urlOf(replica), client.token);
      expect((await there.rest("GET", "/api/v1/whoami")).status).to.equal(200);

      expect((await client.rest("POST", "/api/v1/auth/logout")).status).to.equal(204);

      for (const each of [client, there]) {
        const { status, body } = await each.rest("GET", "/api/v1/whoami");
        expect([status, body.error.code]).to.deep.equal([401, "AUTH_INVALID"]);
      }
    }
  });

  it("leaves the other tokens of the identity alone", async () => {
    const one = await server.login(server.clientId, server.clientSecret);
    const other = await server.login(server.clientId, server.clientSecret);

    await one.rest("POST", "/api/v1/auth/logout");

    expect((await other.rest("GET", "/api/v1/whoami")).status).to.equal(200);
  });

  it("ends a session like DELETE", async () => {
    const browser = await newBrowser();

    const { status } = await browser.rest("POST", "/api/v1/auth/logout", {}, { "x-csrf-token": browser.csrfToken });

    expect(status).to.equal(204);
    expect((await browser.rest("GET", "/api/v1/whoami")).body.error.code).to.equal("AUTH_INVALID");
  });

  it("does not revoke an API token", async () => {
    const { body: token } = await server.admin.rest("POST", "/api/v1/api-tokens", { name: "t" });
    const client = new Client(server.url, token.token);

    expect((await client.rest("POST", "/api/v1/auth/logout")).status).to.equal(409);
    expect((await client.rest("GET", "/api/v1/whoami")).status).to.equal(200);
  });
});
