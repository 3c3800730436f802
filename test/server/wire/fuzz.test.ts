import { connect as connectHttp2 } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import { CreateSecretRequestSchema } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { randomFrom } from "../../harness/random.ts";
import { useServer } from "../../harness/server.ts";
import { errorLines, expectSpecifiedError, request, send } from "./raw-http.ts";

const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
/** FUZZ_SECONDS=60 looks longer; give mocha a longer timeout too. */
const mostMs = Number(process.env["FUZZ_SECONDS"] ?? 3) * 1000;
/** However slow the machine is. */
const leastRequests = 200;
const server = useServer();

const random = randomFrom(seed);
const below = (limit: number) => Math.floor(random() * limit);
const one = <T>(items: readonly T[]) => items[below(items.length)] as T;
const often = (chance: number) => random() < chance;

const texts = [
  "",
  " ",
  "\0",
  "a\0b",
  "\ud800",
  "\udfff\ud800",
  "😀",
  "é".repeat(300),
  "a".repeat(7e4),
  "%",
  "'",
  '"',
  "\\",
  "'; drop table secret; --",
  "${7*7}",
  "../../etc/passwd",
  "null",
  "true",
  "0",
  "-1",
  "1e999",
  "0x10",
  "{}",
  "[]",
  "\u202e",
  "\ufeff",
  "\r\nX: y",
  "<script>",
  "__proto__",
  "constructor",
  "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55",
];
const scalars = () =>
  one<unknown>([null, true, false, 0, -0, -1, 1.5, 1e308, 2 ** 31, 2 ** 53, Number.MIN_VALUE, one(texts), one(texts)]);
const anything = (depth = 0): unknown => {
  if (depth > 3 || often(0.5)) return scalars();
  if (often(0.5)) return Array.from({ length: below(4) }, () => anything(depth + 1));
  return Object.fromEntries(Array.from({ length: below(4) }, () => [one(texts), anything(depth + 1)]));
};

interface Template {
  readonly method: string;
  readonly path: string;
  readonly query?: Record<string, string>;
  readonly body?: Record<string, unknown>;
}

const templates = (id: string): Template[] => {
  const project = server.projectId;
  const secret = {
    key: "fuzz",
    value: "v",
    project_id: project,
    environment: "e",
    ttl_hours: 5,
    tags: ["a"],
    metadata: { a: 1 },
  };
  const query = {
    project_id: project,
    page: "1",
    per_page: "5",
    search: "a",
    environment: "e",
    tag: "t",
    status: "active",
  };
  return [
    { method: "POST", path: "/api/v1/secrets", body: { ...secret, rotation: { enabled: true, interval_days: 3 } } },
    { method: "GET", path: "/api/v1/secrets", query },
    { method: "GET", path: `/api/v1/secrets/${id}`, query: { version: "1", view: "metadata" } },
    {
      method: "PUT",
      path: `/api/v1/secrets/${id}`,
      body: { value: "w", description: "d", tags: ["x"], rotation: { enabled: false } },
    },
    { method: "POST", path: `/api/v1/secrets/${id}/rollback`, body: { version: 1, change_reason: "r", cas: 1 } },
    {
      method: "POST",
      path: `/api/v1/secrets/${id}/copy`,
      body: { target_project_id: project, environment: "x", new_key: "n" },
    },
    { method: "GET", path: `/api/v1/secrets/${id}/versions` },
    {
      method: "PUT",
      path: `/api/v1/secrets/${id}/rotation-config`,
      body: {
        interval: "30d",
        provider: { type: "gateway", settings: { driver: "command", driver_settings: { command: "c" } } },
        credentials: { a: [1] },
        gateway_environment: "e",
      },
    },
    {
      method: "POST",
      path: "/api/v1/admin/failover/nowhere/activate-dr",
      body: { gateway_id: project, reason: "r" },
    },
    { method: "GET", path: `/api/v1/admin/gateways/${id}/tasks`, query: { status: "pending", limit: "5" } },
    {
      method: "POST",
      path: "/api/v1/machine-identities",
      body: { name: "n", project_roles: [{ project_id: project, role: "viewer" }], allowed_ips: ["::1"] },
    },
    { method: "GET", path: "/api/v1/machine-identities", query: { search: "a", limit: "3" } },
    { method: "POST", path: "/api/v1/projects", body: { name: "p", description: "d", key_scope: "project" } },
    {
      method: "GET",
      path: "/api/v1/audit-logs",
      query: { action: "secret.*", from: "2026-01-01T00:00:00Z", outcome: "denied" },
    },
    {
      method: "POST",
      path: "/oauth/token",
      body: { grant_type: "client_credentials", client_id: "a", client_secret: "b" },
    },
    { method: "POST", path: "/holdfast.secrets.v1.SecretService/CreateSecret", body: secret },
    { method: "GET", path: "/api/v1/health" },
  ];
};

/** Replaces, adds or removes something anywhere in a JSON value. */
function mutate(value: unknown): unknown {
  if (typeof value !== "object" || value === null || often(0.2)) return anything();
  if (Array.isArray(value))
    return often(0.5) ? [...value, anything()] : value.map((item) => (often(0.5) ? mutate(item) : item));
  const entries = Object.entries(value);
  if (often(0.2)) entries.push([one(texts), anything()]);
  if (often(0.1)) entries.splice(below(entries.length), 1);
  if (entries.length > 0) {
    const at = below(entries.length);
    const [name, old] = entries[at] as [string, unknown];
    entries[at] = [often(0.1) ? name.toUpperCase() : name, mutate(old)];
  }
  return Object.fromEntries(entries);
}

function damage(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  if (copy.length === 0) return copy;
  if (often(0.3)) return copy.subarray(0, below(copy.length));
  for (let flips = 1 + below(4); flips > 0; flips -= 1) copy[below(copy.length)] = below(256);
  return often(0.2) ? Buffer.concat([copy, copy]) : copy;
}

const encoded = (text: string) => (text.isWellFormed() ? encodeURIComponent(text) : "%ed%a0%80");
const rawPieces = [
  "%",
  "%zz",
  "%00",
  "%ff",
  "%2F",
  "%c0%ae",
  "..",
  ".",
  ";",
  "//",
  "?",
  "#",
  "&&",
  "=",
  "+",
  "[]",
  "{id}",
  "*",
];
const methods = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "QUERY", "FOO"];
const headerTexts = [
  "",
  "x",
  '"1"',
  '"999"',
  "*",
  "W/",
  "gzip",
  "text/plain",
  "application/json; charset=latin1",
  "a, b",
  "9".repeat(300),
  "\x7f",
  "é",
  "\t",
];
const headerNames = [
  "Content-Type",
  "If-Match",
  "If-None-Match",
  "Idempotency-Key",
  "X-Request-Id",
  "X-Forwarded-For",
  "Accept",
  "Content-Encoding",
  "Authorization",
  "Connect-Timeout-Ms",
  "Cookie",
  "Range",
];

function mutatedRequest(template: Template): Buffer {
  const headers: Record<string, string> = {
    Authorization: `Bearer ${server.admin.token}`,
    "Content-Type": "application/json",
  };
  if (often(0.2)) headers[one(headerNames)] = one(headerTexts);
  const pairs = Object.entries(template.query ?? {}).map(([name, value]) =>
    often(0.3) ? `${name}=${often(0.3) ? one(rawPieces) : encoded(one(texts).slice(0, 500))}` : `${name}=${value}`,
  );
  if (often(0.1)) pairs.push(one(rawPieces));
  const segments = template.path.split("/");
  if (often(0.15))
    segments[1 + below(segments.length - 1)] = often(0.5) ? one(rawPieces) : encoded(one(texts).slice(0, 500));
  const target = segments.join("/") + (pairs.length > 0 ? `?${pairs.join("&")}` : "");
  let body = Buffer.alloc(0);
  if (template.body !== undefined) {
    body = Buffer.from(JSON.stringify(often(0.85) ? mutate(template.body) : template.body));
    if (often(0.15)) body = Buffer.from(damage(body));
  }
  return request(often(0.1) ? one(methods) : template.method, target, { headers, body });
}

const shown = (bytes: Buffer) =>
  JSON.stringify(
    bytes
      .toString("latin1")
      .replace(server.admin.token ?? "", "…")
      .slice(0, 600),
  );

describe(`A random request (FUZZ_SEED=${seed})`, () => {
  it("is never answered with a 5xx, nor never, over REST and Connect", async () => {
    const { id } = await server.secret();
    const all = templates(id);
    const until = performance.now() + mostMs;
    const faults: string[] = [];
    let sent = 0;
    const worker = async () => {
      while ((performance.now() < until || sent < leastRequests) && sent < mostMs && faults.length < 5) {
        sent += 1;
        const template = one(all);
        const bytes = mutatedRequest(template);
        const isRpc = template.path.startsWith("/holdfast.");
        const isHead = bytes.toString("latin1").startsWith("HEAD");
        try {
          const answers = await send(server.url, bytes);
          expect(answers.length, "answers").to.be.at.least(1);
          const [answer] = answers as [(typeof answers)[0]];
          // Connect itself says 501 for a compression that the server does not know.
          const unknownCompression = isRpc && answer.status === 501 && answer.body.includes("compression");
          if (!unknownCompression) expect(answer.status).to.be.within(200, 499);
          if (answer.status >= 400 && !isHead && !isRpc) expectSpecifiedError(answer);
        } catch (error) {
          faults.push(`${(error as Error).message}: ${shown(bytes)}`);
        }
      }
    };

    await Promise.all(Array.from({ length: 8 }, worker));

    expect(faults).to.deep.equal([]);
    expect(sent).to.be.at.least(leastRequests);
    expect(errorLines(server.log)).to.deep.equal([]);
  });

  it("is never answered INTERNAL or UNKNOWN over gRPC", async () => {
    const valid = toBinary(
      CreateSecretRequestSchema,
      create(CreateSecretRequestSchema, {
        key: "k",
        value: "v",
        projectId: server.projectId,
        metadata: { a: [1, { b: "c" }] },
        tags: ["t"],
      }),
    );
    const session = connectHttp2(server.url);
    session.on("error", () => {});
    const headers = {
      ":method": "POST",
      ":path": "/holdfast.secrets.v1.SecretService/CreateSecret",
      "content-type": "application/grpc",
      authorization: `Bearer ${server.admin.token}`,
    };
    const status = (bytes: Buffer) =>
      new Promise<number>((resolve) => {
        const stream = session.request(headers);
        let code = -1;
        const note = (received: Record<string, unknown>) => {
          if (received["grpc-status"] !== undefined) code = Number(received["grpc-status"]);
        };
        stream
          .on("response", note)
          .on("trailers", note)
          .on("error", () => {});
        stream.on("close", () => resolve(code));
        stream.resume();
        stream.end(bytes);
      });
    const until = performance.now() + 1000;
    const faults: string[] = [];

    for (let sent = 0; sent < 400 && performance.now() < until; sent += 1) {
      const message = damage(Buffer.from(valid));
      const head = Buffer.from([often(0.05) ? below(256) : 0, 0, 0, 0, 0]);
      head.writeUInt32BE(often(0.05) ? below(2 ** 31) : message.length, 1);
      const code = await status(Buffer.concat([head, message]));
      if (![0, 3, 5, 6].includes(code)) faults.push(`${code}: ${message.toString("hex")}`);
    }
    session.destroy();

    expect(faults).to.deep.equal([]);
    expect(errorLines(server.log)).to.deep.equal([]);
  });

  it("leaves a server that answers as before", async () => {
    const { id } = await server.secret({ value: "still here" });

    const { body } = await server.admin.rest("GET", `/api/v1/secrets/${id}`);
    const { status } = await server.anonymous.rest("GET", "/api/v1/health");

    expect([body.value, status]).to.deep.equal(["still here", 200]);
  });
});
