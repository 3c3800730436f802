import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const file = readFileSync(new URL("../../../gen/openapi.json", import.meta.url), "utf8");

describe("The documents over HTTP", () => {
  const server = useServer();

  describe("GET /api/v1/openapi.json", () => {
    it("answers the document to anybody", async () => {
      const { status, headers, body } = await server.anonymous.rest("GET", "/api/v1/openapi.json");

      expect(status).to.equal(200);
      expect(headers.get("content-type")).to.equal("application/json; charset=utf-8");
      expect(headers.get("cache-control")).to.equal("no-store");
      expect(headers.get("x-request-id")).to.match(/./);
      expect(body).to.deep.equal(JSON.parse(file));
    });

    it("answers HEAD with the headers alone", async () => {
      const { status, headers, body } = await server.anonymous.rest("HEAD", "/api/v1/openapi.json");

      expect(status).to.equal(200);
      expect(headers.get("content-length")).to.equal(String(Buffer.byteLength(file)));
      expect(body).to.equal("");
    });

    it("names no limit when there is none", async () => {
      const { headers } = await server.anonymous.rest("GET", "/api/v1/openapi.json");

      expect([...headers.keys()].filter((name) => name.startsWith("x-ratelimit"))).to.deep.equal([]);
    });

    it("refuses another method", async () => {
      const { status, headers, body } = await server.anonymous.rest("POST", "/api/v1/openapi.json", {});

      expect(status).to.equal(405);
      expect(body.error.code).to.equal("METHOD_NOT_ALLOWED");
      expect(headers.get("allow")).to.equal("GET, HEAD");
    });
  });

  describe("GET /api/v1/openapi.json with a limit", () => {
    const limited = useServer({ RATE_LIMIT_API: "2" });
    const get = () => limited.anonymous.rest("GET", "/api/v1/openapi.json");

    it("counts as a call of the API, by client address", async () => {
      const answers = [await get(), await limited.anonymous.rest("GET", "/api/v1/secrets"), await get()];

      const identified = await limited.admin.rest("GET", "/api/v1/openapi.json");

      expect(answers.map(({ status }) => status)).to.deep.equal([200, 401, 429]);
      expect(answers.map(({ headers }) => headers.get("x-ratelimit-remaining"))).to.deep.equal(["1", "0", "0"]);
      expect(answers[2]?.body.error.code).to.equal("RATE_LIMITED");
      expect(Number(answers[2]?.headers.get("retry-after"))).to.be.within(1, 60);
      expect(identified.headers.get("x-ratelimit-remaining"), "an identity has a count of its own").to.equal("1");
    });
  });

  describe("GET /docs", () => {
    const get = (path: string) => server.anonymous.rest("GET", path);
    const linked = (html: string) =>
      [...html.matchAll(/(?:src|href)="(?!data:)([^"]*)"/g)].map(([, path = ""]) => path);

    it("loads a page with its style and scripts, all from this server", async () => {
      const page = await get("/docs");

      const parts = await Promise.all(linked(page.body).map(get));

      expect(page.headers.get("content-type")).to.equal("text/html; charset=utf-8");
      expect(parts.map(({ status }) => status)).to.deep.equal([200, 200, 200]);
      expect(parts.map(({ headers }) => headers.get("content-type"))).to.deep.equal([
        "text/css; charset=utf-8",
        "text/javascript; charset=utf-8",
        "text/javascript; charset=utf-8",
      ]);
      expect(parts[0]?.body, "a style that loads nothing more").not.to.match(/url\((?!["']?data:)|@import/);
    });

    it("allows what the page needs and no outside host", async () => {
      const { headers, body } = await get("/docs");

      const policy = headers.get("content-security-policy");

      expect(policy?.split("; ")).to.have.members([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
      ]);
      expect(body).not.to.match(/<script>|<style|style=|https?:/);
    });

    it("starts the reader on this server's document, and asks no validator elsewhere", async () => {
      const { body: script } = await get("/docs/start.js");
      const given: Record<string, unknown>[] = [];

      runInContext(
        script,
        createContext({ SwaggerUIBundle: (options: Record<string, unknown>) => given.push(options) }),
      );

      expect(given).to.have.length(1);
      expect(given[0]).to.include({ url: "/api/v1/openapi.json", validatorUrl: null });
    });

    it("counts against no limit", async () => {
      const { headers } = await get("/docs/");

      expect(headers.has("x-ratelimit-limit")).to.equal(false);
    });
  });
});
