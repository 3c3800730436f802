import { createHash, randomUUID } from "node:crypto";
import type { DescribeSecretCommandOutput, SecretsManager } from "@aws-sdk/client-secrets-manager";
import { awsRequestHandler } from "../../outbound/aws-request-handler.ts";
import type { Outbound } from "../../outbound/outbound.ts";
import { notAnswered } from "../http-target.ts";
import { TargetError } from "../target-error.ts";
import { type AwsError, awsName, explainAws } from "./aws-errors.ts";
import type { Entry } from "./destination.ts";

/** What AWS says of a secret, beside its value. */
export type Description = DescribeSecretCommandOutput;

interface AwsPlace {
  readonly endpoint: string;
  readonly region: string;
  readonly name: string;
  /** AWS's own key if left out. */
  readonly kmsKeyId: string | undefined;
}

interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

/** The tag that holds the id of the link that made a secret. */
export const linkTag = "holdfast:link";

/** Of one request. */
const timeoutMs = 10_000;
/** The shortest during which AWS lets a deleted secret be restored. */
const recoveryWindowInDays = 7;
/** Names of errors. */
const absent = "ResourceNotFoundException";
const exists = "ResourceExistsException";

/** A secret of that name at AWS, whether it is there or not. All methods throw TargetErrors. */
export class AwsSecret {
  readonly #aws: SecretsManager;
  readonly #place: AwsPlace;
  readonly #signal: AbortSignal;

  private constructor(aws: SecretsManager, place: AwsPlace, signal: AbortSignal) {
    this.#aws = aws;
    this.#place = place;
    this.#signal = signal;
  }

  /** Loads the SDK, which costs 28 MB, only when a link of this kind is first written. */
  static async open(outbound: Outbound, place: AwsPlace, credentials: AwsCredentials, signal: AbortSignal) {
    const sdk = await import("@aws-sdk/client-secrets-manager");
    const aws = new sdk.SecretsManager({
      endpoint: place.endpoint,
      region: place.region,
      credentials,
      requestHandler: awsRequestHandler(outbound, { timeoutMs }),
      maxAttempts: 1,
      // Whatever is left out here, the SDK looks for in this machine's variables and files.
      retryMode: "standard",
      defaultsMode: "standard",
      useDualstackEndpoint: false,
      useFipsEndpoint: false,
      authSchemePreference: [],
      userAgentAppId: "holdfast",
    });
    return new AwsSecret(aws, place, signal);
  }

  /** Undefined when there is none. */
  async describe(): Promise<Description | undefined> {
    const input = { SecretId: this.#place.name };
    return await this.#ask("DescribeSecret", (aws, options) => aws.describeSecret(input, options), absent);
  }

  /** False when somebody else made it meanwhile. */
  async create(entry: Entry): Promise<boolean> {
    const { name: Name, kmsKeyId: KmsKeyId } = this.#place;
    const ClientRequestToken = tokenOf(entry);
    const Tags = [
      { Key: "managed-by", Value: "holdfast" },
      { Key: linkTag, Value: entry.linkId },
    ];
    const input = { Name, KmsKeyId, ClientRequestToken, SecretString: entry.value, Tags };
    const made = await this.#ask("CreateSecret", (aws, options) => aws.createSecret(input, options), exists);
    if (made !== undefined && made.VersionId !== ClientRequestToken) throw unconfirmed();
    return made !== undefined;
  }

  /** Has it encrypted with the key that the place names, unless it is. */
  async encryptAsSaid({ ARN: SecretId, KmsKeyId: used = "" }: Description): Promise<void> {
    const { kmsKeyId: KmsKeyId } = this.#place;
    if (KmsKeyId === undefined || isSameKey(KmsKeyId, used)) return;
    await this.#ask("UpdateSecret", (aws, options) => aws.updateSecret({ SecretId, KmsKeyId }, options));
  }

  /** Makes the entry's value the current one; a version that is there from an earlier attempt is not made twice. */
  async put({ ARN }: Description, entry: Entry): Promise<void> {
    if (await this.#putAs(tokenOf(entry), ARN, entry.value)) return;
    // That version has another value, of a time that we have lost, or somebody made another one the current one.
    if (!(await this.#putAs(randomUUID(), ARN, entry.value))) throw unconfirmed();
  }

  async remove({ ARN: SecretId }: Description): Promise<void> {
    const input = { SecretId, RecoveryWindowInDays: recoveryWindowInDays };
    const gone = await this.#ask("DeleteSecret", (aws, options) => aws.deleteSecret(input, options), absent);
    if (gone !== undefined && gone.DeletionDate === undefined)
      throw new TargetError("refused", `${awsName} did not confirm that the secret is to be deleted`);
  }

  /** Whether the version of this id has the value now, and is the current one. */
  async #putAs(ClientRequestToken: string, SecretId: string | undefined, SecretString: string): Promise<boolean> {
    const input = { SecretId, ClientRequestToken, SecretString };
    const put = await this.#ask("PutSecretValue", (aws, options) => aws.putSecretValue(input, options), exists);
    return put?.VersionId === ClientRequestToken && put.VersionStages?.includes("AWSCURRENT") === true;
  }

  /** Undefined where AWS answers the error of the name `expected`. */
  async #ask<Answer>(
    operation: string,
    request: (aws: SecretsManager, options: { abortSignal: AbortSignal }) => Promise<Answer>,
    expected?: string,
  ): Promise<Answer | undefined> {
    try {
      return await request(this.#aws, { abortSignal: this.#signal }).catch(notAnswered(awsName));
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof TargetError) throw error;
      if ((error as AwsError).name === expected) return undefined;
      throw explainAws(error as AwsError, operation);
    }
  }
}

const unconfirmed = () => new TargetError("refused", `${awsName} did not confirm that the version is the current one`);

/** Whether two names of a key of KMS mean the same one: an ARN ends with the id of the key, or with its alias. */
const isSameKey = (a: string, b: string): boolean =>
  a === b || [a, b].some((arn) => [a, b].some((name) => arn.endsWith(`/${name}`) || arn.endsWith(`:${name}`)));

/** The id at AWS of the version that a version of ours becomes: the same for every attempt to write it. */
function tokenOf({ linkId, version }: Entry): string {
  const digest = createHash("sha256").update(`${linkId}/${version}`).digest();
  // Version 8 of RFC 9562: made in a way of our own.
  digest.writeUInt8(0x80 | (digest.readUInt8(6) & 0x0f), 6);
  digest.writeUInt8(0x80 | (digest.readUInt8(8) & 0x3f), 8);
  return digest.toString("hex", 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
