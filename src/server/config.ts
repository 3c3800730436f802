import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { BlockList } from "node:net";
import { z } from "zod";
import { addNetwork } from "../standards/networks.ts";

/** A setting that stops the start; the message is one line that names it. */
export class ConfigError extends Error {}

const seconds = (fallback: number, min = 1, max = 86_400) =>
  z.coerce.number().int().min(min).max(max).default(fallback);
const port = (fallback: number) => z.coerce.number().int().min(0).max(65_535).default(fallback);
const limit = (fallback: number) => z.coerce.number().int().min(0).max(1_000_000).default(fallback);
const truthy = z
  .string()
  .optional()
  .transform((text) => text?.trim().toLowerCase() === "true");
const uuid = z.uuid().toLowerCase();
const list = z
  .string()
  .default("")
  .transform((text) =>
    text
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== ""),
  );
const networks = list.transform((items, context) => {
  const found = new BlockList();
  for (const item of items) {
    if (!addNetwork(found, item)) context.addIssue(`${item} is neither an address nor a network (CIDR)`);
  }
  return found;
});

const redisNodes = z
  .string()
  .transform((text) => text.split(",").map((url) => url.trim()))
  .refine((urls) => urls.every((url) => /^(rediss?:\/\/|\/)/.test(url)), "must be redis:// or rediss:// URLs")
  .optional();

const Settings = z.object({
  HOST: z.string().min(1).default("127.0.0.1"),
  PORT: port(8080),
  OCSP_PORT: port(8081),
  DATA_DIR: z.string().min(1).default(".holdfast"),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, "must be a postgresql:// URL")
    .optional(),
  REDIS_URL: redisNodes,
  MASTER_KEY: z.string().optional(),
  MASTER_KEY_FILE: z.string().optional(),
  MASTER_KEY_KMS_KEY_ID: z.string().optional(),
  MASTER_KEY_PREVIOUS: z.string().optional(),
  MASTER_KEY_PREVIOUS_FILE: z.string().optional(),
  MASTER_KEY_PREVIOUS_KMS_KEY_ID: z.string().optional(),
  MASTER_KEY_KMS_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  KEYTAB_ENABLED: truthy,
  PUBLIC_URL: z.url({ protocol: /^https?$/ }).optional(),
  OCSP_URL: z.url({ protocol: /^https?$/ }).optional(),
  TLS_CERT_FILE: z.string().optional(),
  TLS_KEY_FILE: z.string().optional(),
  TRUSTED_PROXIES: networks,
  OUTBOUND_ALLOWED_CIDRS: networks,
  ACCESS_TOKEN_TTL_SECONDS: seconds(3600, 300),
  RATE_LIMIT_AUTH: limit(10),
  RATE_LIMIT_API: limit(100),
  RATE_LIMIT_OCSP: limit(1000),
  RATE_LIMIT_AGENT: limit(600),
  HEARTBEAT_TIMEOUT_SECONDS: seconds(120, 1, 3600),
  FAILURE_THRESHOLD: z.coerce.number().int().min(1).max(100).default(3),
  TASK_TIMEOUT_SECONDS: seconds(30, 1, 3600),
  GATEWAY_VERIFY_INTERVAL_SECONDS: seconds(3600, 0, 604_800),
  KEYTAB_EXPIRING_DAYS: z.coerce.number().int().min(1).max(3650).default(30),
  LICENSE_EXPIRES_AT: z.iso.datetime({ offset: true }).optional(),
  LOG_LEVEL: z.enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"]).default("info"),
  DATABASE_POOL_SIZE: z.coerce.number().int().min(2).max(200).default(16),
  BOOTSTRAP_ADMIN_USERNAME: z
    .string()
    .toLowerCase()
    .regex(/^[a-z0-9._@+-]{1,255}$/, "must be 1 to 255 letters, digits or one of . _ @ + -")
    .default("admin"),
  BOOTSTRAP_ADMIN_PASSWORD: z.string().min(8, "must have at least 8 characters").max(1024).optional(),
  BOOTSTRAP_API_TOKEN: z
    .string()
    .regex(/^[\x21-\x2d\x2f-\x7e]{16,1024}$/, "must be at least 16 visible ASCII characters and no dot")
    .optional(),
  BOOTSTRAP_CLIENT_ID: z.string().min(1).max(255).optional(),
  BOOTSTRAP_CLIENT_SECRET: z.string().min(16, "must have at least 16 characters").max(1024).optional(),
  BOOTSTRAP_PROJECT_ID: uuid.optional(),
});

/** Every setting of the server, by its name without the prefix SERVICE_. */
export type Config = z.infer<typeof Settings>;

/** Reads the settings from variables named SERVICE_…; an empty one counts as unset. Throws a ConfigError that names each bad one. */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): Config {
  const given: Record<string, string> = {};
  for (const name of Object.keys(Settings.shape)) {
    const text = environment[`SERVICE_${name}`];
    if (text !== undefined && text.trim() !== "") given[name] = text.trim();
  }
  const parsed = Settings.safeParse(given);
  if (!parsed.success) {
    throw new ConfigError(
      parsed.error.issues.map(({ path, message }) => `SERVICE_${path.join(".")}: ${message}`).join("; "),
    );
  }
  const config = parsed.data;
  if ((config.DATABASE_URL === undefined) !== (config.REDIS_URL === undefined)) {
    throw new ConfigError("SERVICE_DATABASE_URL and SERVICE_REDIS_URL go together: set both, or neither");
  }
  if ((config.TLS_CERT_FILE === undefined) !== (config.TLS_KEY_FILE === undefined)) {
    throw new ConfigError("SERVICE_TLS_CERT_FILE and SERVICE_TLS_KEY_FILE go together: set both, or neither");
  }
  checkMasterKeys(config);
  return config;
}

/** One place each for the master key and for the one before; a previous one needs one that replaces it. */
function checkMasterKeys(config: Config): void {
  const current = onlyOne(config, ["MASTER_KEY", "MASTER_KEY_FILE", "MASTER_KEY_KMS_KEY_ID"]);
  const previous = onlyOne(config, [
    "MASTER_KEY_PREVIOUS",
    "MASTER_KEY_PREVIOUS_FILE",
    "MASTER_KEY_PREVIOUS_KMS_KEY_ID",
  ]);
  if (previous !== undefined && current === undefined) {
    throw new ConfigError(
      `SERVICE_${previous} goes with a master key that replaces it: set SERVICE_MASTER_KEY, _FILE or _KMS_KEY_ID too`,
    );
  }
}

function onlyOne(config: Config, names: readonly (keyof Config)[]): keyof Config | undefined {
  const given = names.filter((name) => config[name] !== undefined);
  if (given.length > 1) {
    throw new ConfigError(`${given.map((name) => `SERVICE_${name}`).join(" and ")} exclude each other: set one`);
  }
  return given[0];
}

/** Reads a file that setting `name` points to. Throws a ConfigError that names the setting. */
export function readSettingFile(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new ConfigError(`SERVICE_${name}: cannot read ${path} (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** Reads the certificate and its key; undefined without TLS. Throws a ConfigError when they are not a pair. */
export function readTlsFiles({ TLS_CERT_FILE, TLS_KEY_FILE }: Config): { cert: Buffer; key: Buffer } | undefined {
  if (TLS_CERT_FILE === undefined || TLS_KEY_FILE === undefined) return undefined;
  const cert = readSettingFile("TLS_CERT_FILE", TLS_CERT_FILE);
  const key = readSettingFile("TLS_KEY_FILE", TLS_KEY_FILE);
  const certificate = parsed(
    () => new X509Certificate(cert),
    `TLS_CERT_FILE: ${TLS_CERT_FILE} holds no certificate in PEM`,
  );
  const privateKey = parsed(
    () => createPrivateKey(key),
    `TLS_KEY_FILE: ${TLS_KEY_FILE} holds no private key in PEM without a passphrase`,
  );
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new ConfigError("SERVICE_TLS_KEY_FILE: it is not the key of the certificate in SERVICE_TLS_CERT_FILE");
  }
  return { cert, key };
}

function parsed<T>(parse: () => T, fault: string): T {
  try {
    return parse();
  } catch {
    throw new ConfigError(`SERVICE_${fault}`);
  }
}
