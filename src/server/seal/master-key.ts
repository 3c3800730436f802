import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Config, ConfigError, readSettingFile } from "../config.ts";
import { keyLength } from "./cipher.ts";

/** The master key and where it came from. */
export interface MasterKey {
  readonly key: KeyObject;
  /** Set when the key was made by the service and lies beside the data it protects. */
  readonly generatedFile?: string;
}

/**
 * Reads the master key: SERVICE_MASTER_KEY or the file of SERVICE_MASTER_KEY_FILE, 32 bytes as base64 or hex.
 * With embedded engines and neither set, it is generated into the data folder on the first start.
 */
export function readMasterKey(config: Config, embedded: boolean): MasterKey {
  if (config.MASTER_KEY !== undefined) return { key: parse("MASTER_KEY", config.MASTER_KEY) };
  if (config.MASTER_KEY_FILE !== undefined) {
    const text = readSettingFile("MASTER_KEY_FILE", config.MASTER_KEY_FILE).toString("latin1");
    return { key: parse("MASTER_KEY_FILE", text) };
  }
  if (!embedded) {
    throw new ConfigError(
      "SERVICE_MASTER_KEY is needed with SERVICE_DATABASE_URL: 32 random bytes as base64, for example from `openssl rand -base64 32`",
    );
  }
  const generatedFile = join(config.DATA_DIR, "master.key");
  if (!existsSync(generatedFile)) {
    mkdirSync(config.DATA_DIR, { recursive: true, mode: 0o700 });
    writeFileSync(generatedFile, `${randomBytes(keyLength).toString("base64")}\n`, {
      mode: 0o600,
      flag: "wx",
      flush: true,
    });
  }
  return { key: parse("DATA_DIR", readFileSync(generatedFile, "latin1"), generatedFile), generatedFile };
}

function parse(setting: string, text: string, file = ""): KeyObject {
  const trimmed = text.trim();
  const bytes = /^[0-9a-fA-F]{64}$/.test(trimmed) ? Buffer.from(trimmed, "hex") : Buffer.from(trimmed, "base64");
  if (bytes.length !== keyLength) {
    throw new ConfigError(
      `SERVICE_${setting}: ${file === "" ? "" : `${file} `}must hold ${keyLength} bytes as base64 or hex`,
    );
  }
  return createSecretKey(bytes);
}
