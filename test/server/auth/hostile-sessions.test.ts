import { createPrivateKey, randomUUID } from "node:crypto";
import { expect } from "chai";
import { SignJWT } from "jose";
import { RoleService } from "../../../gen/ts/holdfast/auth/v1/role_service_pb.ts";
import { SessionService } from "../../../gen/ts/holdfast/auth/v1/session_service_pb.ts";
import { type Answer, Client } from "../../harness/client.ts";
import { passwordFields } from "../../harness/person.ts";
import { useServer } from "../../harness/server.ts";
import { request, send, sendHttp2 } from "../wire/raw-http.ts";

const server = useServer();
const path = "/api/v1/auth/session";

let count = 0;
const newName = (kind = "user") => `${kind}-${(count += 1)}`;
const codeOf = ({ status, body }: Answer) => (status < 300 ? status : `${status} ${body.error?.code}`);

interface Browser {
  readonly cookie: string;
  readonly csrfToken: string;
  /** With the cookie, and nothing else. */
  readonly client: Client;
}

async function newBrowser(by: Client = server.admin): Promise<Browser> {
  const { status, headers, body } = await by.rest("POST", path);
  expect(status, JSON.stringify(body)).to.equal(201);
  const cookie = headers.getSetCookie()[0]?.split(";")[0] ?? "";
  return { cookie, csrfToken: body.csrf_token, client: new Client(server.url, undefined, "", { cookie }) };
}

/** An access token of a login some time ago. */
async function oldLogin(user: Client, minutesAgo: number): Promise<Client> {
  const pkcs8 = await server.server.core.seal.serviceKey("token-signing");
  const key = createPrivateKey({ key: pkcs8, type: "pkcs8", format: "der" });
  const [, payload = ""] = user.token?.split(".") ?? [];
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
  const then = Math.floor(Date.now() / 1000) - minutesAgo * 60;
  const past = { ...claims, jti: randomUUID(), auth_time: then, iat: then, nbf: then, exp: then + 86_400 };
  const token = await new SignJWT(past).setProtectedHeader({ alg: "EdDSA", typ: "JWT" }).sign(key);
  return new Client(server.url, token, user.id);
}

describe("A session that begins long after the login", () => {
  it("changes no password: it is no younger than the login", async () => {
    const username = newName();
    const user = await server.user(username);
    const { client, csrfToken } = await newBrowser(await oldLogin(user, 6));
    const fresh = await newBrowser(user);
    const change = async (by: Browser) => {
      const fields = await passwordFields(username, "mine now");
      return by.client.rest("PUT", "/api/v1/users/me/srp", fields, { "x-csrf-token": by.csrfToken });
    };

    expect(codeOf(await change({ client, csrfToken, cookie: "" }))).to.equal("403 PERMISSION_DENIED");
    expect(codeOf(await change(fresh))).to.equal(200);
    expect(codeOf(await fresh.client.rest("GET", "/api/v1/whoami"))).to.equal(200);
    expect(codeOf(await client.rest("GET", "/api/v1/whoami"))).to.equal("401 AUTH_INVALID");
  });

  it("ends twelve hours after the login, and does not begin after that", async () => {
    const user = await server.user(newName());

    const { body } = await (await oldLogin(user, 60)).rest("POST", path);
    const late = await (await oldLogin(user, 12 * 60 + 1)).rest("POST", path);

    expect(Math.round((Date.parse(body.expires_at) - Date.now()) / 60_000)).to.equal(11 * 60);
    expect(codeOf(late)).to.equal("403 PERMISSION_DENIED");
  });
});

describe("A cookie", () => {
  let browser: Browser;
  before(async () => {
    browser = await newBrowser();
  });
  const whoami = (cookie: string) => server.anonymous.rest("GET", "/api/v1/whoami", undefined, { cookie });

  it("that comes beside another session's is refused: a neighbouring host may have set one of them", async () => {
    const { cookie: theirs } = await newBrowser(await server.as(newName("identity"), []));

    expect(codeOf(await whoami(`${theirs}; ${browser.cookie}`))).to.equal("401 AUTH_INVALID");
    expect(codeOf(await whoami(`${browser.cookie}; ${theirs}`))).to.equal("401 AUTH_INVALID");
    expect(codeOf(await whoami(`${browser.cookie}; ${browser.cookie}`))).to.equal(200);
  });

  it("is found among others however they are written, by its exact name only", async () => {
    const value = browser.cookie.slice("holdfast_session=".length);
    for (const [cookie, expected] of [
      [`;;;=;a=b;${browser.cookie};`, 200],
      [`a=holdfast_session;   ${browser.cookie}`, 200],
      [`\u00ff=\u00fe; ${browser.cookie}`, 200],
      [`HOLDFAST_SESSION=${value}`, "401 AUTH_REQUIRED"],
      [`xholdfast_session=${value}`, "401 AUTH_REQUIRED"],
      ["holdfast_session", "401 AUTH_REQUIRED"],
      ["holdfast_session=", "401 AUTH_INVALID"],
      [`holdfast_session="${value}"`, "401 AUTH_INVALID"],
      [`${browser.cookie}x`, "401 AUTH_INVALID"],
      [`holdfast_session=${"x".repeat(8000)}`, "401 AUTH_INVALID"],
    ] as const) {
      expect(codeOf(await whoami(cookie)), cookie.slice(0, 40)).to.equal(expected);
    }
  });

  it("is no bearer token, and a bearer token no cookie", async () => {
    const value = browser.cookie.slice("holdfast_session=".length);
    const { body: apiToken } = await server.admin.rest("POST", "/api/v1/api-tokens", { name: "t" });

    expect(codeOf(await new Client(server.url, value).rest("GET", "/api/v1/whoami"))).to.equal("401 AUTH_INVALID");
    for (const token of [apiToken.token, server.admin.token]) {
      expect(codeOf(await whoami(`holdfast_session=${token}`))).to.equal("401 AUTH_INVALID");
    }
  });
});

describe("A call with a cookie", () => {
  let browser: Browser;
  before(async () => {
    browser = await newBrowser();
  });

  it("over gRPC needs the X-CSRF-Token in its metadata", async () => {
    const grpc = browser.client.grpc(RoleService);
    const create = (headers: Record<string, string>) =>
      grpc.createRole({ name: newName("role"), permissions: [] }, browser.client.metadata(headers)).then(
        () => "made",
        (error: { code: number; details: string }) => `${error.code} ${error.details}`,
      );

    const without = await create({});
    const wrong = await create({ "x-csrf-token": "x" });
    const right = await create({ "x-csrf-token": browser.csrfToken });
    grpc.close();

    expect(without).to.equal("7 the header X-CSRF-Token is required");
    expect(wrong).to.equal("7 the X-CSRF-Token is not that of the session");
    expect(right).to.equal("made");
  });

  it("over gRPC-Web and Connect needs it too, whatever content type a form could send", async () => {
    const call = async (type: string, body: string, headers: Record<string, string> = {}) => {
      const answer = await browser.client.rest("POST", `/${SessionService.typeName}/WhoAmI`, body, {
        "content-type": type,
        ...headers,
      });
      return `${answer.status} ${JSON.stringify(answer.body)}`;
    };
    const frame = "\0\0\0\0\0";

    expect(await call("application/json", "{}")).to.match(/^403 .*CSRF/i);
    expect(await call("application/grpc-web+proto", frame)).to.match(/^200 .*grpc-status: 7/);
    expect(await call("text/plain", "{}")).to.match(/^400 .*VALIDATION_ERROR/);
    expect(await call("application/x-www-form-urlencoded", "a=b")).to.match(/^400 .*VALIDATION_ERROR/);
    expect(await call("multipart/form-data; boundary=x", "--x--")).to.match(/^400 .*VALIDATION_ERROR/);
    expect(await call("application/json", "{}", { "x-csrf-token": browser.csrfToken })).to.match(
      /^200 .*administrator/,
    );
  });

  it("changes nothing by a method that needs no token: HEAD, OPTIONS, PATCH or a GET of what is written", async () => {
    const before = await server.sql("select id, ended_at from session order by id");

    const answers = [];
    for (const method of ["HEAD", "OPTIONS", "PATCH", "GET"]) {
      answers.push((await browser.client.rest(method, path)).status);
      answers.push((await browser.client.rest(method, "/api/v1/auth/logout")).status);
      answers.push((await browser.client.rest(method, `/${SessionService.typeName}/DeleteSession`)).status);
    }

    expect(new Set(answers)).to.deep.equal(new Set([405]));
    expect(await server.sql("select id, ended_at from session order by id")).to.deep.equal(before);
    expect((await browser.client.rest("HEAD", "/api/v1/whoami")).status).to.equal(200);
  });

  it("is not made another by headers that ask for it", async () => {
    for (const name of ["x-http-method-override", "x-method-override", "x-http-method"]) {
      const { body } = await browser.client.rest("POST", "/api/v1/projects", { name: "forged" }, { [name]: "GET" });
      expect(body.error.code, name).to.equal("CSRF_INVALID");
    }
    const twice = { "x-csrf-token": `${browser.csrfToken}, ${browser.csrfToken}` };
    const { body } = await browser.client.rest("POST", "/api/v1/projects", { name: "forged" }, twice);
    expect(body.error.code).to.equal("CSRF_INVALID");
  });
});

describe("Authorization headers", () => {
  const target = "/api/v1/whoami";

  it("of which there are several count as the first one", async () => {
    const [good, bad] = [`Bearer ${server.admin.token}`, "Bearer hf_nonsense"];
    const statusOf = async (first: string, second: string) => {
      const head = request("GET", target, { headers: { Authorization: first } }).toString();
      const [answer] = await send(server.url, head.replace("\r\n\r\n", `\r\nAuthorization: ${second}\r\n\r\n`));
      return answer?.status;
    };

    expect(await statusOf(good, bad)).to.equal(200);
    expect(await statusOf(bad, good)).to.equal(401);
  });

  it("that are long, not ASCII or of several words are AUTH_INVALID", async () => {
    for (const authorization of [
      `Bearer ${"x".repeat(15_000)}`,
      "Bearer \u00ff\u00fe",
      "Bearer hf_a hf_b",
      "Bearer ,",
      "Bearer a.b.c.d.e",
      "BearerX y",
    ]) {
      const answer = await server.anonymous.rest("GET", target, undefined, { authorization });
      expect(codeOf(answer), authorization.slice(0, 20)).to.equal("401 AUTH_INVALID");
    }
    const long = { ":path": target, authorization: `Bearer ${"x".repeat(16 * 1024)}` };
    expect((await sendHttp2(server.url, long)).status).to.equal(401);
  });
});
