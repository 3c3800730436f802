import type { KMS } from "@aws-sdk/client-kms";
import { SealBroken } from "./cipher.ts";
import { KeyServiceError, type KeyWrapping } from "./key-wrapping.ts";

/** First byte of what this wraps; the rest is the ciphertext that KMS gave. */
const formatVersion = 2;
/** Of a request with all its attempts: a call that waits for it must be answered within 3 s. */
const patienceMs = 2500;
const attempts = {
  maxAttempts: 3,
  requestHandler: { connectionTimeout: 1000, requestTimeout: 1500, throwOnRequestTimeout: true },
};
/** The ciphertext is another key's, or another place's, or damaged. */
const foreign = new Set(["InvalidCiphertextException", "IncorrectKeyException"]);

interface KmsKeyOptions {
  readonly setting: string;
  /** Id, ARN or alias of a symmetric key. */
  readonly keyId: string;
  readonly endpoint: string | undefined;
}

/** A key that AWS KMS holds and never shows; region and credentials come from where AWS's tools have them. */
export class KmsKey implements KeyWrapping {
  readonly setting: string;
  readonly #keyId: string;
  readonly #endpoint: string | undefined;
  #kms: Promise<KMS> | undefined;

  constructor({ setting, keyId, endpoint }: KmsKeyOptions) {
    this.setting = setting;
    this.#keyId = keyId;
    this.#endpoint = endpoint;
  }

  async wrap(place: string, key: Buffer): Promise<Buffer> {
    const input = { KeyId: this.#keyId, Plaintext: key, EncryptionContext: { place } };
    const { CiphertextBlob } = await this.#ask((kms, abortSignal) => kms.encrypt(input, { abortSignal }));
    return Buffer.concat([Buffer.of(formatVersion), CiphertextBlob as Uint8Array]);
  }

  async unwrap(place: string, wrapped: Buffer): Promise<Buffer> {
    if (wrapped[0] !== formatVersion) throw new SealBroken();
    const CiphertextBlob = wrapped.subarray(1);
    const input = { KeyId: this.#keyId, CiphertextBlob, EncryptionContext: { place } };
    const { Plaintext } = await this.#ask((kms, abortSignal) => kms.decrypt(input, { abortSignal }));
    const { buffer, byteOffset, byteLength } = Plaintext as Uint8Array<ArrayBuffer>;
    return Buffer.from(buffer, byteOffset, byteLength);
  }

  async #ask<Answer>(request: (kms: KMS, signal: AbortSignal) => Promise<Answer>): Promise<Answer> {
    const signal = AbortSignal.timeout(patienceMs);
    // The SDK heeds the signal while it sends, but not while it looks for credentials or pauses between attempts.
    const outOfTime = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    try {
      this.#kms ??= connect(this.#keyId, this.#endpoint);
      return await Promise.race([this.#kms.then((kms) => request(kms, signal)), outOfTime]);
    } catch (error) {
      throw this.#explain(error as KmsFault);
    }
  }

  #explain(cause: KmsFault): Error {
    const { name, message, code, $metadata } = cause;
    if (foreign.has(name)) return new SealBroken({ cause });
    const late = name === "TimeoutError" || name === "AbortError";
    const unreachable = typeof code === "string" && /^E[A-Z_]+$/.test(code);
    const away = late || unreachable || name === "ThrottlingException" || ($metadata?.httpStatusCode ?? 0) >= 500;
    const reason = late ? "no answer in time" : unreachable ? code : `${name}: ${message.split("\n")[0]}`;
    return new KeyServiceError(`${this.setting}: AWS KMS cannot be used (${reason})`, { away, cause });
  }
}

interface KmsFault extends Error {
  readonly code?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** Loads the SDK, which costs 28 MB, only when a key of KMS is first used. */
async function connect(keyId: string, endpoint: string | undefined): Promise<KMS> {
  const sdk = await import("@aws-sdk/client-kms");
  // Two keys in two regions work side by side when they are given as ARNs.
  const region = /^arn:[^:]*:kms:([^:]+):/.exec(keyId)?.[1];
  return new sdk.KMS({
    ...attempts,
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
  });
}
