import { createCipheriv, createDecipheriv, randomBytes, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

const region = "eu-west-1";

/** Variables that AWS's tools read, for somebody who may use the keys; nothing asks the machine's own metadata. */
export const awsEnvironment = {
  AWS_REGION: region,
  AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
  AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  AWS_EC2_METADATA_DISABLED: "true",
};

/** The name and message of an error of KMS. */
interface Fault {
  readonly name: string;
  readonly message: string;
}

interface Input {
  readonly KeyId: string;
  readonly Plaintext?: string;
  readonly CiphertextBlob?: string;
  readonly EncryptionContext?: Record<string, string>;
}

/** Stands in for AWS KMS: its protocol (JSON 1.1 over HTTP, signature version 4), its two operations on keys, its errors. */
export class Kms {
  /** Operations asked for, in order, with what was sent. */
  readonly requests: { readonly operation: string; readonly input: Input }[] = [];
  readonly #keys = new Map<string, Buffer>();
  #faults: Fault[] = [];
  #hangs = false;
  #server: Server | undefined;
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** A new key; answers its ARN. */
  createKey(): string {
    const arn = `arn:aws:kms:${region}:111122223333:key/${randomUUID()}`;
    this.#keys.set(arn, randomBytes(32));
    return arn;
  }

  /** The next `times` requests fail with the error of this name. */
  fail(name: string, times = Number.POSITIVE_INFINITY): void {
    this.#faults = Array.from({ length: Math.min(times, 10_000) }, () => ({ name, message: `${name} for a test` }));
  }

  /** From now on requests are taken and not answered. */
  hang(): void {
    this.#hangs = true;
  }

  recover(): void {
    this.#faults = [];
    this.#hangs = false;
  }

  /** Listens, after a stop on the same port. */
  async start(): Promise<void> {
    const server = createServer((request, response) => void this.#serve(request, response));
    await new Promise<void>((resolve) => server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    if (this.#hangs) return;
    const answer = this.#answer(request, body);
    const failed = "name" in answer;
    response.writeHead(failed ? (answer.name === "KMSInternalException" ? 500 : 400) : 200, {
      "content-type": "application/x-amz-json-1.1",
      "x-amzn-requestid": randomUUID(),
    });
    response.end(JSON.stringify(failed ? { __type: answer.name, message: answer.message } : answer));
  }

  #answer(request: IncomingMessage, body: string): Fault | object {
    const malformed = malformation(request);
    if (malformed !== undefined) return { name: "IncompleteSignatureException", message: malformed };
    const operation = String(request.headers["x-amz-target"]).replace("TrentService.", "");
    const input = JSON.parse(body) as Input;
    this.requests.push({ operation, input });
    const fault = this.#faults.shift();
    if (fault !== undefined) return fault;
    const key = this.#keys.get(input.KeyId);
    if (key === undefined) return { name: "NotFoundException", message: `Key '${input.KeyId}' does not exist` };
    if (operation === "Encrypt") return encrypt(input, key);
    if (operation === "Decrypt") return this.#decrypt(input, key);
    return { name: "UnknownOperationException", message: operation };
  }

  #decrypt(input: Input, key: Buffer): Fault | object {
    try {
      const { arn, iv, tag, ciphertext } = JSON.parse(Buffer.from(input.CiphertextBlob ?? "", "base64").toString());
      if (arn !== input.KeyId)
        return { name: "IncorrectKeyException", message: "The key ID in the request does not..." };
      const decipher = createDecipheriv("aes-256-gcm", key, Buffer.from(iv, "base64"));
      decipher.setAAD(contextOf(input)).setAuthTag(Buffer.from(tag, "base64"));
      const plaintext = Buffer.concat([decipher.update(ciphertext, "base64"), decipher.final()]);
      return { KeyId: arn, Plaintext: plaintext.toString("base64"), EncryptionAlgorithm: "SYMMETRIC_DEFAULT" };
    } catch {
      return { name: "InvalidCiphertextException", message: "" };
    }
  }
}

function encrypt(input: Input, key: Buffer): object {
  const iv = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", key, iv).setAAD(contextOf(input));
  const ciphertext = Buffer.concat([cipher.update(input.Plaintext ?? "", "base64"), cipher.final()]);
  const parts = Object.entries({ iv, tag: cipher.getAuthTag(), ciphertext });
  const written = Object.fromEntries(parts.map(([name, bytes]) => [name, bytes.toString("base64")]));
  const blob = Buffer.from(JSON.stringify({ arn: input.KeyId, ...written })).toString("base64");
  return { KeyId: input.KeyId, CiphertextBlob: blob, EncryptionAlgorithm: "SYMMETRIC_DEFAULT" };
}

const contextOf = ({ EncryptionContext = {} }: Input) =>
  Buffer.from(JSON.stringify(EncryptionContext, Object.keys(EncryptionContext).toSorted()));

/** What is wrong with the form of a request, by the protocol and by signature version 4. */
function malformation({ method, url, headers }: IncomingMessage): string | undefined {
  if (method !== "POST" || url !== "/") return `${String(method)} ${String(url)}`;
  if (headers["content-type"] !== "application/x-amz-json-1.1")
    return `content-type ${String(headers["content-type"])}`;
  if (!/^\d{8}T\d{6}Z$/.test(String(headers["x-amz-date"]))) return `x-amz-date ${String(headers["x-amz-date"])}`;
  const day = String(headers["x-amz-date"]).slice(0, 8);
  const scope = `${awsEnvironment.AWS_ACCESS_KEY_ID}/${day}/${region}/kms/aws4_request`;
  const [, credential, signed = "", signature = ""] =
    /^AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=(\S+)$/.exec(headers.authorization ?? "") ?? [];
  if (credential !== scope) return `credential ${String(credential)}`;
  if (!["host", "x-amz-date", "x-amz-target"].every((name) => signed.split(";").includes(name))) return signed;
  return /^[0-9a-f]{64}$/.test(signature) ? undefined : "signature";
}

/** A KMS for the tests of the surrounding `describe` or file, whose environment this process has meanwhile. */
export function useKms(): Kms {
  const kms = new Kms();
  const own = { ...process.env };
  before(async () => {
    Object.assign(process.env, awsEnvironment);
    await kms.start();
  });
  afterEach(() => kms.recover());
  after(async () => {
    for (const name of Object.keys(awsEnvironment)) delete process.env[name];
    Object.assign(process.env, own);
    await kms.stop();
  });
  return kms;
}
