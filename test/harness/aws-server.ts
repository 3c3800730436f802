import { createHash, createHmac, randomBytes, randomUUID } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { LoopbackServer } from "./loopback-server.ts";
import type { Trouble } from "./trouble.ts";

const region = "eu-west-1";
const dayMs = 24 * 60 * 60 * 1000;

interface Tag {
  readonly Key: string;
  readonly Value: string;
}

interface Input {
  readonly SecretId?: string;
  readonly Name?: string;
  readonly SecretString?: string;
  readonly ClientRequestToken?: string;
  readonly KmsKeyId?: string;
  readonly Tags?: readonly Tag[];
  readonly RecoveryWindowInDays?: number;
}

/** A secret as AWS keeps it. */
interface KeptSecret {
  readonly ARN: string;
  readonly Name: string;
  Tags: readonly Tag[];
  KmsKeyId: string | undefined;
  DeletedDate: number | undefined;
  /** Values by the ids of versions. */
  readonly versions: Map<string, string>;
  /** Ids of versions by stages. */
  readonly stages: Map<string, string>;
}

class AwsFault extends Error {
  readonly status: number;

  constructor(name: string, message: string, status = 400) {
    super(message);
    this.name = name;
    this.status = status;
  }
}

/**
 * Stands in for AWS Secrets Manager in one region: its protocol (JSON 1.1 over HTTP), signature version 4 as AWS verifies
 * it, and of its operations those that create, describe, change and delete secrets, with their versions and stages.
 */
export class AwsServer extends LoopbackServer {
  /** Who may do everything. */
  readonly identity = {
    access_key_id: "AKIAIOSFODNN7EXAMPLE",
    secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  };
  /** Operations asked for, in order, with what was sent. */
  readonly requests: { readonly operation: string; readonly input: Input; readonly headers: IncomingHttpHeaders }[] =
    [];
  /** What happens to the next requests, one after the other; undefined for nothing special. */
  troubles: (Trouble | undefined)[] = [];
  /** The session token that goes with the keys, if one does. */
  sessionToken: string | undefined;
  /** What may be done; everything if undefined. */
  allowed: ReadonlySet<string> | undefined;
  /** Called when a request has been done, before it is answered. */
  whenDone: (() => void) | undefined;
  readonly #secrets = new Map<string, KeptSecret>();

  /** As on the first day. */
  reset(): void {
    this.#secrets.clear();
    this.requests.length = 0;
    this.troubles = [];
    this.sessionToken = undefined;
    this.allowed = undefined;
    this.whenDone = undefined;
  }

  /** A secret that somebody else made. */
  prefill(Name: string, value: string, options: Partial<Pick<KeptSecret, "Tags" | "KmsKeyId" | "DeletedDate">> = {}) {
    this.#make({ Name, SecretString: value, ClientRequestToken: randomUUID(), Tags: options.Tags ?? [] });
    Object.assign(this.#secrets.get(Name) as KeptSecret, options);
  }

  /** Puts a value by somebody else. */
  putByHand(Name: string, SecretString: string): void {
    this.#put({ SecretId: Name, SecretString, ClientRequestToken: randomUUID() });
  }

  /** The value at a stage, or undefined. */
  valueAt(Name: string, stage = "AWSCURRENT"): string | undefined {
    const secret = this.#secrets.get(Name);
    return secret?.versions.get(secret.stages.get(stage) ?? "");
  }

  /** What is kept of a secret, to be compared; undefined for none. */
  secret(Name: string) {
    const secret = this.#secrets.get(Name);
    if (secret === undefined) return undefined;
    const { versions, stages, ...rest } = secret;
    return { ...rest, versions: Object.fromEntries(versions), stages: Object.fromEntries(stages) };
  }

  protected override async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const trouble = this.troubles.shift();
    const [status, answer] = trouble?.done === false ? [500, {}] : this.#answer(request, body);
    this.whenDone?.();
    if (trouble !== undefined) {
      trouble.answer(response);
      return;
    }
    response.writeHead(status, { "content-type": "application/x-amz-json-1.1", "x-amzn-requestid": randomUUID() });
    response.end(JSON.stringify(answer));
  }

  #answer(request: IncomingMessage, body: string): [number, object] {
    try {
      this.#authenticate(request, body);
      const operation = String(request.headers["x-amz-target"]).replace("secretsmanager.", "");
      const input = JSON.parse(body) as Input;
      this.requests.push({ operation, input, headers: request.headers });
      if (this.allowed?.has(operation) === false)
        throw new AwsFault("AccessDeniedException", `User: arn:aws:iam::111122223333:user/u is not authorized`);
      return [200, this.#perform(operation, input)];
    } catch (error) {
      const { name = "InternalFailure", message = "", status = 500 } = error as Partial<AwsFault>;
      return [status, { __type: name, Message: message }];
    }
  }

  /** Signature version 4, as AWS computes it from what it received. */
  #authenticate({ method, url, headers }: IncomingMessage, body: string): void {
    if (method !== "POST" || url !== "/" || headers["content-type"] !== "application/x-amz-json-1.1")
      throw new AwsFault("UnknownOperationException", "");
    const [, keyId, day, scope = "", signed = "", signature] =
      /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/(\S+), SignedHeaders=(\S+), Signature=([0-9a-f]{64})$/.exec(
        headers.authorization ?? "",
      ) ?? [];
    if (keyId !== this.identity.access_key_id || headers["x-amz-security-token"] !== this.sessionToken)
      throw new AwsFault("UnrecognizedClientException", "The security token included in the request is invalid.");
    const time = String(headers["x-amz-date"]);
    const names = signed.split(";");
    const required = ["host", "x-amz-date", "x-amz-target", ...(this.sessionToken ? ["x-amz-security-token"] : [])];
    const sentHeaders = names.map((name) => `${name}:${String(headers[name]).trim()}`);
    const canonical = ["POST", "/", "", ...sentHeaders, "", signed, sha256(body)].join("\n");
    const key = [String(day), region, "secretsmanager", "aws4_request"].reduce(
      (key, part) => createHmac("sha256", key).update(part).digest(),
      Buffer.from(`AWS4${this.identity.secret_access_key}`),
    );
    const toSign = ["AWS4-HMAC-SHA256", time, `${day}/${scope}`, sha256(canonical)].join("\n");
    const isRight =
      scope === `${region}/secretsmanager/aws4_request` &&
      time.startsWith(String(day)) &&
      required.every((name) => names.includes(name)) &&
      createHmac("sha256", key).update(toSign).digest("hex") === signature;
    if (!isRight)
      throw new AwsFault("InvalidSignatureException", "The request signature we calculated does not match...");
  }

  #perform(operation: string, input: Input): object {
    switch (operation) {
      case "CreateSecret":
        return this.#create(input);
      case "DescribeSecret":
        return describe(this.#find(input));
      case "PutSecretValue":
        return this.#put(input);
      case "UpdateSecret":
        return this.#update(input);
      case "DeleteSecret":
        return this.#delete(input);
      default:
        throw new AwsFault("UnknownOperationException", operation);
    }
  }

  #create(input: Input): object {
    const there = this.#secrets.get(input.Name ?? "");
    const { ClientRequestToken: token = "", SecretString } = input;
    if (there?.DeletedDate !== undefined)
      throw new AwsFault("InvalidRequestException", "a secret with this name is already scheduled for deletion.");
    if (there !== undefined && there.versions.get(token) !== SecretString)
      throw new AwsFault("ResourceExistsException", "The operation failed because the secret already exists.");
    if (there === undefined) this.#make(input);
    const { ARN } = this.#secrets.get(input.Name as string) as KeptSecret;
    return { ARN, Name: input.Name, VersionId: token };
  }

  #make({ Name = "", SecretString, ClientRequestToken = "", KmsKeyId, Tags = [] }: Input): void {
    checkVersion(ClientRequestToken, SecretString);
    const ARN = `arn:aws:secretsmanager:${region}:111122223333:secret:${Name}-${randomBytes(3).toString("hex")}`;
    const versions = new Map([[ClientRequestToken, SecretString as string]]);
    const stages = new Map([["AWSCURRENT", ClientRequestToken]]);
    this.#secrets.set(Name, { ARN, Name, Tags, KmsKeyId, DeletedDate: undefined, versions, stages });
  }

  #put(input: Input): object {
    const secret = this.#findUsable(input);
    const { ClientRequestToken: token = "", SecretString = "" } = input;
    checkVersion(token, SecretString);
    const kept = secret.versions.get(token);
    if (kept !== undefined && kept !== SecretString)
      throw new AwsFault("ResourceExistsException", "You can't modify an existing version, you can only create a new.");
    if (kept === undefined) {
      secret.versions.set(token, SecretString);
      secret.stages.set("AWSPREVIOUS", secret.stages.get("AWSCURRENT") as string);
      secret.stages.set("AWSCURRENT", token);
    }
    return { ARN: secret.ARN, Name: secret.Name, VersionId: token, VersionStages: stagesOf(secret, token) };
  }

  #update(input: Input): object {
    const secret = this.#findUsable(input);
    if (input.KmsKeyId !== undefined) secret.KmsKeyId = input.KmsKeyId;
    return { ARN: secret.ARN, Name: secret.Name };
  }

  #delete(input: Input): object {
    const secret = this.#findUsable(input);
    const days = input.RecoveryWindowInDays ?? 30;
    if (days < 7 || days > 30) throw new AwsFault("InvalidParameterException", "RecoveryWindowInDays");
    secret.DeletedDate = (Date.now() + days * dayMs) / 1000;
    return { ARN: secret.ARN, Name: secret.Name, DeletionDate: secret.DeletedDate };
  }

  #find({ SecretId }: Input): KeptSecret {
    const found = [...this.#secrets.values()].find(({ Name, ARN }) => Name === SecretId || ARN === SecretId);
    if (found !== undefined) return found;
    throw new AwsFault("ResourceNotFoundException", "Secrets Manager can't find the specified secret.");
  }

  #findUsable(input: Input): KeptSecret {
    const found = this.#find(input);
    if (found.DeletedDate === undefined) return found;
    throw new AwsFault("InvalidRequestException", "the secret was marked for deletion.");
  }
}

/** The same lengths as AWS (API reference of PutSecretValue). */
function checkVersion(token: string, value: string | undefined): void {
  if (!/^.{32,64}$/.test(token)) throw new AwsFault("InvalidParameterException", "ClientRequestToken");
  const size = Buffer.byteLength(value ?? "");
  if (size < 1 || size > 65_536)
    throw new AwsFault("ValidationException", `Value '${String(value)}' at 'secretString'`);
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

const stagesOf = ({ stages }: KeptSecret, version: string): string[] =>
  [...stages].filter(([, id]) => id === version).map(([stage]) => stage);

function describe({ versions, stages, ...rest }: KeptSecret): object {
  const staged = [...versions.keys()].map((id) => [
    id,
    [...stages].filter(([, at]) => at === id).map(([name]) => name),
  ]);
  return { ...rest, VersionIdsToStages: Object.fromEntries(staged.filter(([, names]) => names?.length !== 0)) };
}
