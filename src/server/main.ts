import { type Engines, startEngines } from "../engines/engines.ts";
import type { Bootstrapped } from "./auth/bootstrap.ts";
import { type Config, ConfigError, readConfig } from "./config.ts";
import { explainStart } from "./explain-start.ts";
import { createLogger, type Logger } from "./logging.ts";
import { readMasterKey } from "./seal/master-key.ts";
import type { Part, Server, ServerOptions } from "./server.ts";

const allParts: readonly Part[] = ["api", "jobs", "ocsp"];
/** Past this the process ends whatever still runs: whoever sent the signal waits ten seconds. */
const lastResortMs = 9500;

type Running = Omit<Server, "core">;

/** Runs the server until SIGINT or SIGTERM. What keeps it from starting is said in one line, and the exit status is 1. */
export async function serve(only: string | undefined): Promise<void> {
  let engines: Engines | undefined;
  let server: Running | undefined;
  let stopping = false;
  const stop = async (signal: NodeJS.Signals) => {
    if (stopping) return;
    stopping = true;
    setTimeout(() => process.exit(1), lastResortMs).unref();
    logger?.info({ signal }, "stopping");
    try {
      await server?.stop();
      await engines?.stop();
      process.exit(0);
    } catch (err) {
      logger?.error({ err }, "stopping failed");
      process.exit(1);
    }
  };
  let logger: Logger | undefined;
  try {
    const config = readConfig();
    logger = createLogger(config.LOG_LEVEL);
    const parts = readParts(only);
    const embedded = config.DATABASE_URL === undefined;
    if (embedded && isResponderAlone(parts)) {
      throw new ConfigError(
        "SERVICE_DATABASE_URL is needed for the OCSP responder alone: without it, `holdfast serve` runs the responder too",
      );
    }
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void stop(signal));
    const starting = embedded ? startEngines(config.DATA_DIR, { warn: (message) => logger?.warn(message) }) : undefined;
    // The engines start while the server's code is read.
    const [started, start] = await Promise.all([starting, loadStart(parts)]);
    engines = started;
    // After the engines, which hold the folder: of two first starts at once only one makes a key.
    const masterKey = readMasterKey(config, embedded);
    if (masterKey.generatedFile !== undefined) {
      logger.warn(
        `the master key is in ${masterKey.generatedFile}; in production set SERVICE_MASTER_KEY and keep it elsewhere`,
      );
    }
    if (masterKey.previous !== undefined) {
      logger.warn(`${masterKey.previous.setting} is set; remove it when \`holdfast admin rewrap\` has finished`);
    }
    server = await start({
      config,
      logger,
      masterKey,
      parts,
      databaseUrl: engines?.databaseUrl ?? config.DATABASE_URL ?? "",
      redisUrls: engines === undefined ? (config.REDIS_URL ?? []) : [engines.redisUrl],
    });
    announce(server, config, logger);
  } catch (error) {
    // Told to stop amid the start: what fails then fails because it is stopping.
    if (stopping) return;
    process.stderr.write(`holdfast: ${explainStart(error)}\n`);
    await server?.stop().catch(() => {});
    await engines?.stop().catch(() => {});
    process.exit(1);
  }
}

function readParts(only: string | undefined): ReadonlySet<Part> {
  if (only === undefined) return new Set(allParts);
  const parts = only.split(",").map((part) => part.trim());
  const unknown = parts.find((part) => !(allParts as readonly string[]).includes(part));
  if (unknown !== undefined) throw new ConfigError(`--only: ${unknown} is not one of ${allParts.join(", ")}`);
  return new Set(parts as Part[]);
}

const isResponderAlone = (parts: ReadonlySet<Part>) => parts.size === 1 && parts.has("ocsp");

/** The responder alone needs little of the server's code, and less of its rights. */
async function loadStart(parts: ReadonlySet<Part>): Promise<(options: ServerOptions) => Promise<Running>> {
  if (isResponderAlone(parts)) return (await import("./ocsp-process.ts")).startOcspProcess;
  return (await import("./server.ts")).startServer;
}

function announce(server: Running, config: Config, logger: Logger): void {
  const { address, ocspAddress, bootstrapped } = server;
  const scheme = config.TLS_CERT_FILE === undefined ? "http" : "https";
  const { address: host, port } = address ?? { address: config.HOST, port: config.PORT };
  const url = config.PUBLIC_URL ?? `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
  logger.info({ url: address && url, ocsp_port: ocspAddress?.port }, "ready");
  if (bootstrapped !== undefined) process.stdout.write(welcome(url, bootstrapped));
}

/** Shown once, on the first start on an empty database; the secrets are kept nowhere else. */
function welcome(url: string, made: Bootstrapped): string {
  const clientSecret = made.secretWasGiven ? "(SERVICE_BOOTSTRAP_CLIENT_SECRET)" : made.clientSecret;
  const password = made.passwordWasGiven ? "(SERVICE_BOOTSTRAP_ADMIN_PASSWORD)" : made.password;
  return `
Holdfast is ready at ${url} (API reader: ${url}/docs).
This is the first start. The credentials of its two administrators are shown this once. For programs:

  export HOLDFAST_URL=${url}
  export HOLDFAST_PROJECT_ID=${made.projectId}
  export HOLDFAST_CLIENT_ID=${made.clientId}
  export HOLDFAST_CLIENT_SECRET=${clientSecret}

For people, with "holdfast login":

  username  ${made.username}
  password  ${password}

`;
}
