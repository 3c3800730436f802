import { randomBytes } from "node:crypto";
import { createConnection } from "node:net";
import { expect } from "chai";
import { newSerialNumber } from "../../src/standards/x509/serial-number.ts";
import { certId, nonceExtension, ocspRequest } from "../standards/ocsp/requests.ts";
import { readResponse } from "../standards/ocsp/responses.ts";
import { TestAuthority } from "./authority.ts";
import { MemorySource } from "./memory-source.ts";
import { type HttpAnswer, ResponderUnderTest } from "./responder-under-test.ts";

const malformed = "30030a0101";
const tryLater = "30030a0103";
const unauthorized = "30030a0106";

describe("OCSP over HTTP", () => {
  let authority: TestAuthority;
  let source: MemorySource;
  let responder: ResponderUnderTest;
  const serial = newSerialNumber();

  before(async () => {
    authority = await TestAuthority.create();
    source = new MemorySource();
    await source.add(authority);
    source.issue(authority, serial);
    responder = await ResponderUnderTest.start(source);
  });

  after(() => responder.close());

  const idOf = (digits: string) =>
    certId({ hash: "sha1", issuer: authority.names, serial: Buffer.from(digits, "hex"), parameters: [] });
  const about = (digits: string, nonce?: Buffer) =>
    ocspRequest({ certIds: [idOf(digits)], ...(nonce === undefined ? {} : { extensions: [nonceExtension(nonce)] }) });
  const path = (query: Buffer) => encodeURIComponent(query.toString("base64"));

  function expectStatus({ status, headers, body }: HttpAnswer, expected: string): void {
    expect(status).to.equal(200);
    expect(headers["content-type"]).to.equal("application/ocsp-response");
    expect(headers["content-length"]).to.equal(String(body.length));
    const { answers, isSigned } = readResponse(body);
    expect(isSigned).to.equal(true);
    expect(answers.map((answer) => answer.status.split(" ")[0])).to.deep.equal([expected]);
  }

  function expectError({ status, headers, body }: HttpAnswer, expected: string): void {
    expect(status).to.equal(200);
    expect(headers["content-type"]).to.equal("application/ocsp-response");
    expect(headers["cache-control"]).to.equal("no-store");
    expect(body.toString("hex")).to.equal(expected);
  }

  describe("by POST", () => {
    it("is answered at / and at /ocsp, also with a slash more and whatever the content type", async () => {
      for (const at of ["/", "/ocsp", "/ocsp/", "//", `${responder.url}/ocsp`]) {
        expectStatus(await responder.post(about(serial), at), "good");
      }
      expectStatus(await responder.send({ method: "POST", path: "/" }, about(serial)), "good");
    });

    it("is answered when it comes in chunks", async () => {
      const query = about(serial);
      const headers = { "transfer-encoding": "chunked" };
      const parts = Array.from(query, (octet) => Buffer.of(octet));

      expectStatus(await responder.send({ method: "POST", path: "/", headers }, ...parts), "good");
    });

    it("is not read to its end when it comes in thousands of pieces, which cost time and memory each", async () => {
      const query = ocspRequest({ certIds: Array.from({ length: 16 }, () => idOf(serial)) });
      const options = { method: "POST", path: "/", headers: { "transfer-encoding": "chunked" } };

      const whole = await responder.send(options, query);
      const inPieces = await responder.send(options, ...Array.from(query, (octet) => Buffer.of(octet)));

      expect(readResponse(whole.body).answers).to.have.length(16);
      expect(query).to.have.length.above(1000);
      expectError(inPieces, malformed);
      expect(inPieces.headers.connection).to.equal("close");
    });

    it("says whether it was revoked, or is unknown", async () => {
      const revoked = newSerialNumber();
      source.issue(authority, revoked);
      source.revoke(authority, revoked, "superseded");

      expectStatus(await responder.post(about(revoked)), "revoked");
      expectStatus(await responder.post(about(newSerialNumber())), "unknown");
    });

    it("is not for caches, and yet without words that keep a client from using the answer again", async () => {
      const { headers } = await responder.post(about(serial));

      expect(headers["cache-control"]).to.equal("private, max-age=0");
      expect(headers).not.to.have.any.keys("pragma", "etag", "x-ratelimit-limit", "content-encoding");
    });

    it("is malformed when it is empty, something else, or followed by something", async () => {
      for (const query of [Buffer.alloc(0), Buffer.from("hello"), Buffer.concat([about(serial), Buffer.of(0)])]) {
        expectError(await responder.post(query), malformed);
      }
    });

    it("is malformed when it is larger than 64 KiB, whether that is announced or not", async () => {
      const large = randomBytes(8 * 1024 * 1024);

      expectError(await responder.post(large), malformed);
      expectError(await responder.send({ method: "POST", path: "/" }, large.subarray(1), large), malformed);
      expectError(await responder.post(randomBytes(64 * 1024 + 1)), malformed);
      expectStatus(await responder.post(about(serial)), "good");
    });

    it("is answered to a client of HTTP/1.0, which names no host", async () => {
      const query = about(serial);
      const head = `POST / HTTP/1.0\r\nContent-Type: application/ocsp-request\r\nContent-Length: ${query.length}\r\n\r\n`;

      const text = await conversation(responder.port, Buffer.concat([Buffer.from(head), query]));

      expect(text).to.match(/^HTTP\/1\.1 200 OK\r\n/);
    });
  });

  describe("by GET", () => {
    /** Queries in whose base64 the characters stand that others have trouble with. */
    function queryWith(pattern: RegExp): Buffer {
      for (let count = 0; count < 50_000; count += 1) {
        // The length decides how much padding there is.
        const query = about(newSerialNumber().slice(0, 40 - 2 * (count % 3)));
        if (pattern.test(query.toString("base64"))) return query;
      }
      throw new Error(`no query has ${pattern}`);
    }

    it("is answered at / and at /ocsp/, with one slash more after each", async () => {
      for (const prefix of ["/", "//", "/ocsp/", "/ocsp//", `${responder.url}/ocsp/`]) {
        expectStatus(await responder.get(`${prefix}${path(about(serial))}`), "good");
      }
    });

    it("is one opaque text, whatever slashes, pluses and signs of equality it has, escaped or not", async () => {
      for (const pattern of [/\/\//, /\/.*\+|\+.*\//, /==$/, /[^=]=$/, /[^=]$/]) {
        const base64 = queryWith(pattern).toString("base64");

        for (const text of [base64, encodeURIComponent(base64), base64.replaceAll("/", "%2f")]) {
          expectStatus(await responder.get(`/${text}`), "unknown");
        }
      }
    });

    it("may be in the alphabet that URLs like better, and without padding", async () => {
      const query = queryWith(/\/.*\+.*=$|\+.*\/.*=$/);

      expectStatus(await responder.get(`/${query.toString("base64url")}`), "unknown");
      expectStatus(await responder.get(`/${query.toString("base64").replaceAll("=", "")}`), "unknown");
    });

    it("may have a query behind it, as some add one against caches", async () => {
      expectStatus(await responder.get(`/${path(about(serial))}?t=1`), "good");
    });

    it("is malformed when it is no base64, is escaped wrongly, or nothing at all", async () => {
      const sound = path(about(serial));

      for (const text of [
        "",
        "favicon.ico",
        "%zz",
        "%ff",
        `${sound}!`,
        `=${sound}`,
        `${sound}%00`,
        `${sound} `.trim() + "A",
      ]) {
        expectError(await responder.get(`/${text}`), malformed);
      }
      expectError(await responder.get(`/${encodeURIComponent(sound)}`), malformed);
    });

    it("may be kept by caches for five minutes", async () => {
      const { headers, body } = await responder.get(`/${path(about(serial))}`);

      const [answer] = readResponse(body).answers;
      expect(headers["cache-control"]).to.equal("max-age=300, public, no-transform, must-revalidate");
      expect(headers.etag).to.match(/^"[0-9a-f]{64}"$/);
      expect(new Date(headers["last-modified"] ?? "")).to.deep.equal(answer?.thisUpdate);
      expect(new Date(headers.expires ?? "")).to.deep.equal(answer?.nextUpdate);
      expect(headers.date).to.be.a("string");
      expect(headers).not.to.have.any.keys("pragma", "set-cookie", "content-encoding");
    });

    it("may be kept by nobody beyond its end", async () => {
      const other = await TestAuthority.create();
      const seconds = 100;
      await source.add(other, await other.newSigner(seconds / 86_400));
      const id = certId({ hash: "sha256", issuer: other.names });

      const { headers } = await responder.get(`/${path(ocspRequest({ certIds: [id] }))}`);

      const [, maxAge] = /^max-age=(\d+), /.exec(headers["cache-control"] ?? "") ?? [];
      expect(Number(maxAge)).to.be.within(seconds - 10, seconds - 1);
    });

    it("is not sent again to whoever has the answer", async () => {
      const at = `/${path(about(serial))}`;
      const { headers: known } = await responder.get(at);
      const etag = known.etag ?? "";

      for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
        const { status, headers, body } = await responder.get(at, { headers: { "if-none-match": tags } });

        expect([status, body.length]).to.deep.equal([304, 0]);
        expect(headers.etag).to.equal(etag);
        expect(headers.expires).to.equal(known.expires);
      }
      expectStatus(await responder.get(at, { headers: { "if-none-match": '"other"' } }), "good");
      expectStatus(
        await responder.send({ path: "/", method: "POST", headers: { "if-none-match": "*" } }, about(serial)),
        "good",
      );
    });

    it("tells a revocation at once, also to whoever has the answer before it", async () => {
      const revoked = newSerialNumber();
      source.issue(authority, revoked);
      const at = `/${path(about(revoked))}`;
      const { headers } = await responder.get(at);

      source.revoke(authority, revoked);

      expectStatus(await responder.get(at, { headers: { "if-none-match": headers.etag ?? "" } }), "revoked");
    });

    it("tells a revocation also to whoever has an answer of the same minute and knows but its date", async () => {
      const revoked = newSerialNumber();
      source.issue(authority, revoked);
      const at = `/${path(about(revoked))}`;
      const { headers } = await responder.get(at);

      source.revoke(authority, revoked);

      const since = { "if-modified-since": headers["last-modified"] ?? "" };
      expectStatus(await responder.get(at, { headers: since }), "revoked");
    });

    it("with a nonce is for nobody else, and never the same twice", async () => {
      const at = `/${path(about(serial, Buffer.alloc(32, 1)))}`;

      const [first, second] = [await responder.get(at), await responder.get(at)];

      expectStatus(first, "good");
      expect(first.headers["cache-control"]).to.equal("private, max-age=0");
      expect(first.headers.etag).to.equal(undefined);
      expect(first.body).not.to.deep.equal(second.body);
    });

    it("has an answer without body for HEAD, and the same headers", async () => {
      const at = `/${path(about(serial))}`;

      const [head, get] = [await responder.get(at, { method: "HEAD" }), await responder.get(at)];

      expect([head.status, head.body.length]).to.deep.equal([200, 0]);
      expect({ ...head.headers, date: "" }).to.deep.equal({ ...get.headers, date: "" });
    });
  });

  it("is unauthorized about issuers that are none of ours", async () => {
    expectError(await responder.post(ocspRequest()), unauthorized);
    expectError(await responder.get(`/${path(ocspRequest())}`), unauthorized);
  });

  it("is to be tried later while the database is away, but for what was answered before", async () => {
    const fresh = newSerialNumber();
    source.issue(authority, fresh);
    expectStatus(await responder.get(`/${path(about(serial))}`), "good");
    source.isAway = true;

    expectError(await responder.get(`/${path(about(fresh))}`), tryLater);
    expectStatus(await responder.get(`/${path(about(serial))}`), "good");
    source.isAway = false;
    expectStatus(await responder.get(`/${path(about(fresh))}`), "good");
  });
});

/** What comes back until the other side hangs up. */
function conversation(port: number, bytes: Uint8Array): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = createConnection(port, "127.0.0.1", () => socket.write(bytes));
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.once("error", reject);
    socket.once("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
  });
}
