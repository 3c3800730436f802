import { accessSync, constants, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { type GrpcEndpoint, grpcEndpoint } from "../client/grpc-endpoint.ts";

/** Settings that stop the start; the message names each bad one. */
export class SettingError extends Error {}

/** What the agent is told by variables named SERVICE_…; an empty one counts as unset. */
export interface Settings {
  /** Replicas of one server; none when the variable is not set. */
  readonly serverUrls: readonly string[];
  /** In PEM, trusted beside those that Node trusts. */
  readonly certificateAuthorities: string | undefined;
  readonly clientId: string | undefined;
  readonly clientSecret: string | undefined;
  /** A one-time token, or where it is. */
  readonly enrollmentToken: string | undefined;
  readonly enrollmentTokenFile: string | undefined;
  /** Where the agent keeps its credentials. */
  readonly stateFolder: string;
  /** Places to look for keytabs in, beside the usual ones. */
  readonly roots: readonly string[];
  readonly otherFileSystems: boolean;
  readonly scanIntervalMs: number;
  readonly logLevel: string;
}

const logLevels = ["fatal", "error", "warn", "info", "debug", "trace", "silent"];
const systemStateFolder = "/var/lib/holdfast-agent";
const scanSeconds = { min: 10, max: 604_800 };

/** Reads the settings. Throws a SettingError. */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const faults: string[] = [];
  const text = (name: string) => environment[`SERVICE_${name}`]?.trim() || undefined;
  /** The setting as `parse` understands it; not at all is a fault. */
  const read = <T>(name: string, fallback: T, what: string, parse: (given: string) => T | undefined): T => {
    const given = text(name);
    if (given === undefined) return fallback;
    const value = parse(given);
    if (value === undefined) faults.push(`SERVICE_${name}: ${what}`);
    return value ?? fallback;
  };

  const settings: Settings = {
    serverUrls: read("SERVER_URL", [], serverUrlRule, parseServerUrls),
    certificateAuthorities: read<string | undefined>("CA_FILE", undefined, "cannot be read", readText),
    clientId: text("CLIENT_ID"),
    clientSecret: text("CLIENT_SECRET"),
    enrollmentToken: text("ENROLLMENT_TOKEN"),
    enrollmentTokenFile: text("ENROLLMENT_TOKEN_FILE"),
    stateFolder: read("AGENT_STATE_DIR", defaultStateFolder(environment), "must be an absolute path", absolute),
    roots: read("AGENT_ROOTS", [], "must be absolute paths, separated by commas", parseRoots),
    otherFileSystems: read("AGENT_OTHER_FILE_SYSTEMS", false, "must be true or false", parseBoolean),
    scanIntervalMs: read("AGENT_SCAN_INTERVAL_SECONDS", 3_600_000, scanIntervalRule, parseScanIntervalMs),
    logLevel: read("LOG_LEVEL", "info", `must be one of ${logLevels.join(", ")}`, parseLogLevel),
  };
  if ((settings.clientId === undefined) !== (settings.clientSecret === undefined))
    faults.push("SERVICE_CLIENT_ID and SERVICE_CLIENT_SECRET go together: set both, or neither");
  if (settings.enrollmentToken !== undefined && settings.enrollmentTokenFile !== undefined)
    faults.push("SERVICE_ENROLLMENT_TOKEN and SERVICE_ENROLLMENT_TOKEN_FILE exclude each other: set one");
  if (faults.length > 0) throw new SettingError(faults.join("; "));
  return settings;
}

const serverUrlRule = "must be URLs of servers without a path, as in https://holdfast.example.org, separated by commas";

/** The URLs in a text, separated by commas; undefined when one of them is not that of a server. */
export function parseServerUrls(text: string): string[] | undefined {
  const urls = list(text).map((each) => grpcEndpoint(each)?.url);
  return urls.length > 0 && urls.every((url) => url !== undefined) ? urls : undefined;
}

/** Where the servers at these URLs take calls. */
export const endpointsOf = (urls: readonly string[], certificateAuthorities: string | undefined): GrpcEndpoint[] =>
  urls.flatMap((url) => grpcEndpoint(url, certificateAuthorities) ?? []);

/** The folder of the system's agent for who may write there, else one of the user's own (XDG Base Directory Specification). */
function defaultStateFolder(environment: NodeJS.ProcessEnv): string {
  if (process.getuid?.() === 0 || isWritable(systemStateFolder)) return systemStateFolder;
  const given = environment["XDG_STATE_HOME"] ?? "";
  return join(isAbsolute(given) ? given : join(homedir(), ".local", "state"), "holdfast-agent");
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const list = (text: string): string[] =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");

const absolute = (path: string) => (isAbsolute(path) ? path : undefined);

const parseRoots = (text: string) => (list(text).every(isAbsolute) ? list(text) : undefined);

const scanIntervalRule = `must be a whole number from ${scanSeconds.min} to ${scanSeconds.max}`;

function parseScanIntervalMs(text: string): number | undefined {
  const seconds = Number(text);
  const isInRange = Number.isInteger(seconds) && seconds >= scanSeconds.min && seconds <= scanSeconds.max;
  return isInRange ? seconds * 1000 : undefined;
}

const parseLogLevel = (text: string) => (logLevels.includes(text) ? text : undefined);

function parseBoolean(text: string): boolean | undefined {
  const lower = text.toLowerCase();
  return lower === "true" || lower === "false" ? lower === "true" : undefined;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
