import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Config, ConfigError, readSettingFile } from "../config.ts";
import { keyLength, SealBroken } from "./cipher.ts";
import { type KeyWrapping, LocalKey } from "./key-wrapping.ts";
import { KmsKey } from "./kms-key.ts";

/** The master key and, while it is being changed, the one before: what either wrapped opens, and the new one wraps. */
export class MasterKey {
  readonly current: KeyWrapping;
  readonly previous: KeyWrapping | undefined;
  /** Set when the key was made by the service and lies beside the data it protects. */
  readonly generatedFile: string | undefined;

  constructor(current: KeyWrapping, previous?: KeyWrapping, generatedFile?: string) {
    this.current = current;
    this.previous = previous;
    this.generatedFile = generatedFile;
  }

  /** Throws KeyServiceError. */
  wrap(place: string, key: Buffer): Promise<Buffer> {
    return this.current.wrap(place, key);
  }

  /** Throws SealBroken and KeyServiceError. */
  async unwrap(place: string, wrapped: Buffer): Promise<Buffer> {
    try {
      return await this.current.unwrap(place, wrapped);
    } catch (error) {
      if (this.previous === undefined || !(error instanceof SealBroken)) throw error;
      return this.previous.unwrap(place, wrapped);
    }
  }

  /** What to say when it does not open what the database has. */
  get mismatch(): string {
    const { current, previous } = this;
    const those =
      previous === undefined ? `${current.setting} is not` : `neither ${current.setting} nor ${previous.setting} is`;
    return `${those} the key that this database was sealed with`;
  }
}

/**
 * Reads the master key, and the previous one if there is one: 32 bytes as base64 or hex from SERVICE_MASTER_KEY or the
 * file of SERVICE_MASTER_KEY_FILE, or a key of AWS KMS. With embedded engines and none of these it is the file in the data
 * folder; `mayGenerate` makes that on the first start.
 */
export function readMasterKey(config: Config, mayGenerate: boolean): MasterKey {
  const given = configured(config, "MASTER_KEY");
  if (given !== undefined) return new MasterKey(given, configured(config, "MASTER_KEY_PREVIOUS"));
  if (config.DATABASE_URL !== undefined) {
    throw new ConfigError(
      "SERVICE_MASTER_KEY is needed with SERVICE_DATABASE_URL: 32 random bytes as base64, for example from `openssl rand -base64 32`",
    );
  }
  const generatedFile = join(config.DATA_DIR, "master.key");
  if (!existsSync(generatedFile)) {
    if (!mayGenerate) throw new ConfigError(`SERVICE_MASTER_KEY is needed: there is no ${generatedFile}`);
    generate(generatedFile);
  }
  const key = parse("SERVICE_DATA_DIR", readFileSync(generatedFile, "latin1"), generatedFile);
  return new MasterKey(new LocalKey(generatedFile, key), undefined, generatedFile);
}

function configured(config: Config, name: "MASTER_KEY" | "MASTER_KEY_PREVIOUS"): KeyWrapping | undefined {
  const settings = { text: name, file: `${name}_FILE`, keyId: `${name}_KMS_KEY_ID` } as const;
  const { [settings.text]: text, [settings.file]: file, [settings.keyId]: keyId } = config;
  const local = (setting: string, found: string) => new LocalKey(setting, parse(setting, found));
  if (text !== undefined) return local(`SERVICE_${settings.text}`, text);
  if (file !== undefined) {
    return local(`SERVICE_${settings.file}`, readSettingFile(settings.file, file).toString("latin1"));
  }
  if (keyId === undefined) return undefined;
  return new KmsKey({ setting: `SERVICE_${settings.keyId}`, keyId, endpoint: config.MASTER_KEY_KMS_ENDPOINT });
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
    throw new ConfigError(`${setting}: ${file === "" ? "" : `${file} `}must hold ${keyLength} bytes as base64 or hex`);
  }
  return createSecretKey(bytes);
}
