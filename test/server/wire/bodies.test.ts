import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { expectSpecifiedError, open, parseAnswers, type RawAnswer, request, send, sendHttp2 } from "./raw-http.ts";

const server = useServer();
const secrets = "/api/v1/secrets";
const authorization = () => ({ Authorization: `Bearer ${server.admin.token}` });
const mebibyte = 1024 * 1024;
let count = 0;

const create = (fields: Record<string, unknown>) =>
  server.admin.rest("POST", secrets, { key: `k${(count += 1)}`, value: "v", project_id: server.projectId, ...fields });

const createRaw = (text: string | Buffer, headers: Record<string, string> = {}) =>
  server.admin.rest("POST", secrets, text, { "content-type": "application/json", ...headers });

/** The JSON text of a request to create a secret, with more text before its end. */
const withText = (more: string) => `{"key":"k${(count += 1)}","value":"v","project_id":"${server.projectId}"${more}}`;

async function one(answers: Promise<RawAnswer[]>): Promise<RawAnswer> {
  const all = await answers;
  expect(all.length).to.equal(1);
  return all[0] as RawAnswer;
}

describe("A body", () => {
  it("may hold a value of 65,536 bytes of UTF-8, and comes back as it was given", async () => {
    const value = `${"é".repeat(32_767)}a\0`;

    const { status, body } = await create({ value });

    expect(status).to.equal(201);
    const { body: read } = await server.admin.rest("GET", `${secrets}/${body.id}`);
    expect(read.value).to.equal(value);
  });

  it("may hold a key of 255 characters beyond the basic plane", async () => {
    const key = "😀".repeat(255);

    const { status, body } = await create({ key });

    expect(status).to.equal(201);
    expect(body.key).to.equal(key);
  });

  it("may be nested 32 levels deep, and not 33", async () => {
    const nested = (levels: number) => withText(`,"metadata":{"a":${"[".repeat(levels - 2)}${"]".repeat(levels - 2)}}`);

    const [fine, refused] = await Promise.all([createRaw(nested(32)), createRaw(nested(33))]);

    expect([fine.status, refused.status]).to.deep.equal([201, 400]);
    expect(refused.body.error.details[0].field).to.equal("body");
  });

  it("takes brackets, braces and quotes within strings for text", async () => {
    const { status, body } = await create({ metadata: { a: '[{"[{'.repeat(20), b: '\\" , "a" : 1', c: "\\u0000" } });

    expect(status).to.equal(201);
    expect(body.metadata).to.deep.equal({ a: '[{"[{'.repeat(20), b: '\\" , "a" : 1', c: "\\u0000" });
  });

  it("keeps metadata under names that JavaScript has for itself", async () => {
    const { status, body } = await createRaw(
      withText(',"metadata":{"__proto__":{"a":1},"constructor":2,"toString":3}'),
    );

    expect(status).to.equal(201);
    expect(JSON.stringify(body.metadata)).to.include('"__proto__":{"a":1}').and.include('"constructor":2');
  });

  it("may be given without a Content-Type, and in UTF-8 under any spelling of it", async () => {
    const types = [
      "application/json;charset=UTF-8",
      'application/json; charset="utf-8"',
      "APPLICATION/JSON; charset=utf8",
    ];

    const answers = await Promise.all([
      ...types.map((type) => createRaw(withText(""), { "content-type": type }).then(({ status }) => status)),
      one(send(server.url, request("POST", secrets, { headers: authorization(), body: withText("") }))).then(
        (a) => a.status,
      ),
    ]);

    expect(answers).to.deep.equal([201, 201, 201, 201]);
  });

  it("may be empty where no field is needed", async () => {
    const { id } = await server.secret();

    const { status } = await server.admin.rest("POST", `${secrets}/${id}/archive`);

    expect(status).to.equal(200);
  });

  it("may be a form where the specification says so, and only there", async () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    const { clientId, clientSecret } = server;
    const fields = new URLSearchParams({
      grant_type: "client_credentials",
      client_id: clientId,
      client_secret: clientSecret,
    });

    const token = await server.anonymous.rest("POST", "/oauth/token", fields.toString(), form);
    const login = await server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", fields.toString(), form);

    expect([token.status, login.status]).to.deep.equal([200, 400]);
    expect(login.body.error.details[0].field).to.equal("header.Content-Type");
  });

  it("takes integers as numbers and as digits in a string", async () => {
    for (const text of ["5", '"5"', "5.0", "5e0"]) {
      const { status, body } = await createRaw(withText(`,"ttl_hours":${text}`));

      expect(status, text).to.equal(201);
      expect(Date.parse(body.expires_at) - Date.parse(body.created_at), text).to.equal(5 * 3_600_000);
    }
  });
});

describe("A body of more than 2 MiB", () => {
  const large = Buffer.alloc(3 * mebibyte, " ");
  const chunked = Buffer.concat([Buffer.from(`${large.length.toString(16)}\r\n`), large, Buffer.from("\r\n0\r\n\r\n")]);
  const cases: Record<string, () => Buffer> = {
    "with a Content-Length": () =>
      request("POST", secrets, { headers: { ...authorization(), Connection: "keep-alive" }, body: large }),
    "in chunks": () =>
      request("POST", secrets, {
        headers: { ...authorization(), Connection: "keep-alive", "Transfer-Encoding": "chunked" },
        body: chunked,
      }),
  };
  for (const [how, bytes] of Object.entries(cases)) {
    it(`${how} is refused with 400, and its connection closed`, async () => {
      const answer = await one(send(server.url, bytes()));

      expect(answer.status).to.equal(400);
      expect(expectSpecifiedError(answer).details[0]?.field).to.equal("body");
      expect(answer.headers["connection"]).to.equal("close");
    });
  }

  it("over HTTP/2 is refused with 400", async () => {
    const headers = { ":method": "POST", ":path": secrets, authorization: authorization().Authorization };

    const answer = await sendHttp2(server.url, headers, large);

    expect(answer.status).to.equal(400);
    expectSpecifiedError(answer);
  });

  it("is read by an ordinary client as a refusal, not as a broken connection", async () => {
    for (let round = 0; round < 5; round += 1) {
      const { status } = await server.admin.rest("POST", secrets, " ".repeat(8 * mebibyte));

      expect(status).to.equal(400);
    }
  });

  it("does not stay in memory: when all but the last byte of twelve has come, less than 2 MiB each is held", async () => {
    // One buffer for all, so that what grows is the server's; garbage is not what is held.
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const held = () => {
      collect();
      return process.memoryUsage().arrayBuffers;
    };
    const bytes = request("POST", secrets, { headers: authorization(), body: Buffer.alloc(8 * mebibyte, " ") });
    const before = held();
    const connections = Array.from({ length: 12 }, () => open(server.url));
    await Promise.all(
      connections.map(({ socket }) => new Promise((resolve) => socket.write(bytes.subarray(0, -1), resolve))),
    );
    // What is held stays; what is only on its way through a busy machine does not.
    let grown = Number.POSITIVE_INFINITY;
    for (let sample = 0; sample < 10 && grown >= 24 * mebibyte; sample += 1) {
      await sleep(50);
      grown = held() - before;
    }

    for (const { socket } of connections) socket.write(bytes.subarray(-1));
    await Promise.all(connections.map(({ closed }) => closed));

    expect(grown).to.be.below(24 * mebibyte);
    for (const { received } of connections) expect(parseAnswers(received())[0]?.status).to.equal(400);
  });

  it("of exactly 2 MiB is read, and of a byte more is not", async () => {
    const start = withText("");
    const padded = (length: number) => start.padEnd(length, " ");

    const [fits, exceeds] = await Promise.all([createRaw(padded(2 * mebibyte)), createRaw(padded(2 * mebibyte + 1))]);

    expect([fits.status, exceeds.status]).to.deep.equal([201, 400]);
  });
});
