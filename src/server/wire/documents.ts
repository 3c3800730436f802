import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { HttpRequest, HttpResponse } from "./rest.ts";

const require = createRequire(import.meta.url);
const openApiPath = "/api/v1/openapi.json";
const readerFiles: Readonly<Record<string, string>> = {
  "/docs/swagger-ui.css": "text/css; charset=utf-8",
  "/docs/swagger-ui-bundle.js": "text/javascript; charset=utf-8",
};
const readerPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'";

const page = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Holdfast API</title><meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="reader"></div>
<script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>
`;
const start = `SwaggerUIBundle({ url: "${openApiPath}", dom_id: "#reader", deepLinking: true });\n`;

interface Document {
  readonly type: string;
  readonly body: Buffer;
}

/** Serves the OpenAPI document and its reader page. */
export class Documents {
  readonly #documents = new Map<string, Document>();
  readonly #readerFolder: string = join(require.resolve("swagger-ui-dist/package.json"), "..");

  constructor(openApiFile: URL) {
    const html = { type: "text/html; charset=utf-8", body: Buffer.from(page) };
    this.#documents.set("/docs", html).set("/docs/", html);
    this.#documents.set("/docs/start.js", { type: "text/javascript; charset=utf-8", body: Buffer.from(start) });
    this.#documents.set(openApiPath, { type: "application/json; charset=utf-8", body: readFileSync(openApiFile) });
  }

  /** Answers a GET of one of the documents; false for every other request. `headers` go with the answer. */
  serve(request: HttpRequest, response: HttpResponse, headers: () => Record<string, string>): boolean {
    const path = (request.url ?? "").split("?", 1)[0] ?? "";
    if (request.method !== "GET" && request.method !== "HEAD") return false;
    const document = this.#find(path);
    if (document === undefined) return false;
    (response as ServerResponse).writeHead(200, {
      ...headers(),
      "content-type": document.type,
      "content-length": document.body.length,
      "content-security-policy": readerPolicy,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cache-control": path === openApiPath ? "no-store" : "max-age=3600",
    });
    if (request.method === "HEAD") response.end();
    else response.end(document.body);
    return true;
  }

  #find(path: string): Document | undefined {
    const known = this.#documents.get(path);
    const type = readerFiles[path];
    if (known !== undefined || type === undefined) return known;
    // Read when first asked for: the reader is two megabytes that most servers never show.
    const document = { type, body: readFileSync(join(this.#readerFolder, path.slice("/docs/".length))) };
    this.#documents.set(path, document);
    return document;
  }
}
