import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";

const src = fileURLToPath(new URL("../../src/", import.meta.url));

/** Which room may import which, beside itself and `gen`. A room is a folder of src, or of src/server. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  engines: [],
  standards: [],
  client: ["standards"],
  agent: ["client", "standards", "version"],
  gateway: ["client", "outbound", "standards", "targets", "version"],
  outbound: [],
  // What values are brought to. Knows neither secrets nor tasks, nor who asks.
  targets: ["outbound", "standards", "version"],
  ocsp: ["standards"],
  contract: ["errors", "server", "wire"],
  // What a policy or a scan says of a file is said of one here too.
  cli: ["admin", "agent", "gateway", "client", "explain-start", "standards", "targets", "server", "main", "version"],
  config: ["standards"],
  errors: [],
  logging: [],
  db: ["config", "errors", "logging", "engines", "server"],
  seal: ["config", "db", "errors", "logging"],
  lock: ["errors", "logging"],
  jobs: ["db", "errors", "logging"],
  // Of the contexts, the wire knows the table of audit events only.
  wire: ["audit", "config", "db", "errors", "jobs", "lock", "logging", "seal", "standards"],
  wake: [],
  rounds: ["logging"],
  "fair-queue": ["errors"],
  // Who may hold a stream open follows from roles.
  streams: ["auth", "context", "errors", "wire"],
  context: ["audit", "config", "db", "jobs", "lock", "logging", "outbound", "seal", "wake", "wire"],
  audit: ["context", "db", "errors", "jobs", "logging", "seal", "standards", "wire"],
  auth: ["audit", "config", "context", "db", "errors", "jobs", "logging", "seal", "standards", "wire"],
  secrets: ["audit", "auth", "context", "db", "errors", "jobs", "logging", "seal", "wire"],
  // What manages keytabs knows of files on hosts only where they are kept; what finds them knows both.
  keytabs: ["audit", "auth", "context", "db", "errors", "jobs", "logging", "seal", "standards", "wire"],
  agents: ["audit", "auth", "config", "context", "db", "errors", "jobs", "logging", "seal", "streams", "wake", "wire"],
  discovery: ["agents", "audit", "auth", "context", "db", "errors", "jobs", "keytabs", "seal", "standards", "wire"],
  // Gateways do tasks of which they know no more than what gateway-work.ts says.
  gateways: [
    "audit",
    "auth",
    "config",
    "context",
    "db",
    "errors",
    "jobs",
    "lock",
    "logging",
    "rounds",
    "seal",
    "streams",
    "wake",
    "wire",
  ],
  // Of rotations it knows no more than that secrets get new versions.
  links: [
    "audit",
    "auth",
    "config",
    "context",
    "db",
    "errors",
    "jobs",
    "logging",
    "outbound",
    "seal",
    "secrets",
    "standards",
    "targets",
    "wire",
  ],
  rotation: [
    "audit",
    "auth",
    "config",
    "context",
    "db",
    "errors",
    "gateways",
    "jobs",
    "logging",
    "outbound",
    "rounds",
    "seal",
    "secrets",
    "standards",
    "system-work",
    "targets",
    "wake",
    "wire",
  ],
  // What the responder answers from is kept here; the responder knows the interface only.
  certificates: [
    "audit",
    "auth",
    "config",
    "context",
    "db",
    "errors",
    "fair-queue",
    "jobs",
    "logging",
    "ocsp",
    "rounds",
    "seal",
    "standards",
    "system-work",
    "wake",
    "wire",
  ],
  // It looks at the tables of all others, and at nothing else of them.
  governance: [
    "audit",
    "auth",
    "config",
    "context",
    "db",
    "errors",
    "fair-queue",
    "jobs",
    "logging",
    "standards",
    "system-work",
    "wire",
  ],
  "system-work": ["audit", "context", "db", "wire"],
  health: ["context", "db", "wire"],
  server: [
    "version",
    "agents",
    "audit",
    "auth",
    "certificates",
    "config",
    "context",
    "db",
    "discovery",
    "gateways",
    "governance",
    "health",
    "jobs",
    "keytabs",
    "links",
    "lock",
    "logging",
    "ocsp",
    "outbound",
    "redis",
    "rotation",
    "seal",
    "secrets",
    "wake",
    "wire",
  ],
  redis: ["logging"],
  "ocsp-process": ["certificates", "db", "redis", "seal", "server"],
  admin: ["audit", "config", "db", "engines", "logging", "seal", "server", "standards"],
  main: ["auth", "config", "engines", "explain-start", "logging", "ocsp-process", "seal", "server"],
  "explain-start": ["config", "engines", "errors"],
};

function roomOf(path: string): string {
  const [first = "", second = ""] = relative(src, path).split("/");
  const name = first === "server" ? second : first;
  return name.replace(/\.(ts|js)$/, "");
}

function importsOf(path: string): string[] {
  const found = readFileSync(path, "utf8").matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g);
  return [...found].map(([, target = ""]) => join(dirname(path), target));
}

const files = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => join(src, name));

describe("imports", () => {
  it("go from a room only to those that it may know", () => {
    const broken = files.flatMap((file) =>
      importsOf(file)
        .filter((target) => target.startsWith(src))
        .map((target) => [roomOf(file), roomOf(target)] as const)
        .filter(([from, to]) => from !== to && allowed[from]?.includes(to) !== true)
        .map(([from, to]) => `${relative(src, file)}: ${from} may not import ${to}`),
    );

    expect(broken).to.deep.equal([]);
  });

  it("of services stay within their own context", () => {
    const broken = files.flatMap((file) =>
      importsOf(file)
        .filter(
          (target) => target.endsWith("-service.ts") && dirname(target) !== dirname(file) && roomOf(file) !== "server",
        )
        .map((target) => `${relative(src, file)} imports ${relative(src, target)}`),
    );

    expect(broken).to.deep.equal([]);
  });
});
