import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
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
  if (!existsSync(generatedFile)) generate(generatedFile);
  return { key: parse("DATA_DIR", readFileSync(generatedFile, "latin1"), generatedFile), generatedFile };
}

/** Under another name first: a first start that is killed must not leave half a key. */
function generate(file: string): void {
  const scratch = `${file}.${process.pid}`;
  writeFileSync(scratch, `${randomBytes(keyLength).toString("base64")}\n`, { mode: 0o600, flush: true });
  renameSync(scratch, file);
  const folder = openSync(dirname(file), "r");
  fsyncSync(folder);
  closeSync(folder);
}

function parse(setting: string, text: string, file = ""): KeyObject {
  const trimmed = text.trim();
  const isHex = /^[0-9a-fA-F]{64}$/.test(trimmed);
  // Node skips what is not base64, and would take a passphrase of the right length for a key.
  const isBase64 = /^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed);
  const bytes = Buffer.from(trimmed, isHex ? "hex" : "base64");
  if (!isHex && !isBase64) {
    throw new ConfigError(
      `SERVICE_${setting}: ${file === "" ? "" : `${file} `}must hold ${keyLength} bytes as base64 or hex`,
    );
  }
  return createSecretKey(bytes);
}
