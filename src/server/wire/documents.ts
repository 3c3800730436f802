import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Refusal, toRefusal } from "../errors.ts";
import type { Call } from "./call.ts";
import type { Admit } from "./chain.ts";
import { type HttpRequest, type HttpResponse, sendRefusal } from "./rest-answer.ts";

const require = createRequire(import.meta.url);
const openApiPath = "/api/v1/openapi.json";
const readerFiles: Readonly<Record<string, string>> = {
  "/docs/swagger-ui.css": "text/css; charset=utf-8",
  "/docs/swagger-ui-bundle.js": "text/javascript; charset=utf-8",
};

/** The page's own script and style, the icons within the style, and calls of this API: nothing from elsewhere. */
const readerPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");
const dataPolicy = "default-src 'none'; frame-ancestors 'none'";

// The empty icon keeps browsers from asking for /favicon.ico.
const page = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Holdfast API</title><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="reader"></div>
<script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>
`;
// Without validatorUrl: null the reader sends the document's address to a validator on the internet.
const readerOptions = {
  url: openApiPath,
  dom_id: "#reader",
  deepLinking: true,
  showExtensions: true,
  validatorUrl: null,
};
const start = `SwaggerUIBundle(${JSON.stringify(readerOptions)});\n`;

interface Document {
  readonly type: string;
  readonly body: Buffer;
}

/** What the documents need of the server that shows them. */
interface Door {
  readonly newCall: (request: HttpRequest) => Call;
  readonly admit: Admit;
}

/** Serves the OpenAPI document and its reader page. */
export class Documents {
  readonly #documents = new Map<string, Document>();
  readonly #readerFolder: string = join(require.resolve("swagger-ui-dist/package.json"), "..");

  constructor(openApiFile: URL) {
    this.#documents.set("/docs", { type: "text/html; charset=utf-8", body: Buffer.from(page) });
    this.#documents.set("/docs/start.js", { type: "text/javascript; charset=utf-8", body: Buffer.from(start) });
    this.#documents.set(openApiPath, { type: "application/json; charset=utf-8", body: readFileSync(openApiFile) });
  }

  /** Answers a request for one of the documents; false for every other request. */
  serve(request: HttpRequest, response: HttpResponse, door: Door): boolean {
    const path = (request.url ?? "").split("?", 1)[0]?.replace(/\/$/, "") ?? "";
    const document = this.#find(path);
    if (document === undefined) return false;
    const call = door.newCall(request);
    response.on("error", () => {});
    admit(call, request, path, door).then(
      () => send(call, request, response, path, document),
      (error: unknown) => sendRefusal(call, request, response, toRefusal(error)),
    );
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

/** The API's document counts as a call of the API, though anybody may read it; the reader is outside of the API. */
async function admit(call: Call, request: HttpRequest, path: string, door: Door): Promise<void> {
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (path === openApiPath) {
    const counted = door.admit(call);
    // A wrong method is answered as such whatever the count says (G-0.10).
    await (isRead ? counted : counted.catch(() => {}));
  }
  if (isRead) return;
  call.headers["allow"] = "GET, HEAD";
  throw new Refusal("METHOD_NOT_ALLOWED", "the path does not take this method");
}

function send(call: Call, request: HttpRequest, response: HttpResponse, path: string, document: Document): void {
  (response as ServerResponse).writeHead(200, {
    ...call.headers,
    "content-type": document.type,
    "content-length": document.body.length,
    "content-security-policy": path === openApiPath ? dataPolicy : readerPolicy,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": path === openApiPath ? "no-store" : "max-age=3600",
  });
  if (request.method === "HEAD") response.end();
  else (response as ServerResponse).end(document.body);
}
