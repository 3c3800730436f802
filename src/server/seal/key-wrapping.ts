import type { KeyObject } from "node:crypto";
import { ConfigError } from "../config.ts";
import { decrypt, encrypt } from "./cipher.ts";

/** What wraps other keys and is itself nowhere in the database. The first byte of wrapped bytes says whose form they have. */
export interface KeyWrapping {
  /** What it was configured by, for messages: SERVICE_MASTER_KEY. */
  readonly setting: string;
  /** Throws KeyServiceError. */
  wrap(place: string, key: Buffer): Promise<Buffer>;
  /** Throws SealBroken for what another key wrapped, or for another place; KeyServiceError when it cannot be known now. */
  unwrap(place: string, wrapped: Buffer): Promise<Buffer>;
}

/** A key in the memory of this process: AES-256-GCM. */
export class LocalKey implements KeyWrapping {
  readonly setting: string;
  readonly #key: KeyObject;

  constructor(setting: string, key: KeyObject) {
    this.setting = setting;
    this.#key = key;
  }

  async wrap(place: string, key: Buffer): Promise<Buffer> {
    return encrypt(this.#key, place, key);
  }

  async unwrap(place: string, wrapped: Buffer): Promise<Buffer> {
    return decrypt(this.#key, place, wrapped);
  }
}

/** The service that holds the master key refuses, or does not answer. One line that names the setting and the reason. */
export class KeyServiceError extends ConfigError {
  /** It does not answer, or has too much to do: the same may succeed later. */
  readonly away: boolean;

  constructor(message: string, { away, cause }: { away: boolean; cause: unknown }) {
    super(message, { cause });
    this.away = away;
  }
}
