import { z } from "zod";
import type { Means } from "../means.ts";
import { TargetError } from "../target-error.ts";
import { awsName } from "./aws-errors.ts";
import { AwsSecret, type Description, linkTag } from "./aws-secret.ts";
import { baseUrl } from "./base-url.ts";
import type { Destination, Entry, Place, Site, Writer } from "./destination.ts";

const config = z.strictObject({
  // It becomes a part of a host's name.
  region: z.string().regex(/^[a-z]{2,5}(-[a-z]{2,12}){1,3}-\d{1,2}$/, "must be a region of AWS, as in eu-west-1"),
  secret_name: z
    .string()
    .regex(/^[\w/+=.@-]{1,512}$/, "must be 1 to 512 letters, digits and /, _, +, =, ., @, -; it is a name, not an ARN"),
  endpoint_url: baseUrl.exactOptional(),
  kms_key_id: z
    .string()
    .regex(/^[\w:/-]{1,2048}$/, "must be the id, the ARN or the alias of a key of KMS")
    .exactOptional(),
});

const visibleAscii = z.string().regex(/^[\x21-\x7e]+$/, "must be visible ASCII characters");

const credentials = z.strictObject({
  access_key_id: z.string().regex(/^\w{16,128}$/, "must be 16 to 128 letters, digits and _"),
  secret_access_key: visibleAscii.max(1024),
  session_token: visibleAscii.max(8192).exactOptional(),
});

type Config = z.output<typeof config>;
type Credentials = z.output<typeof credentials>;

/**
 * One secret of AWS Secrets Manager: what it holds at the stage AWSCURRENT. A tag says which link made it. Credentials are
 * the link's own, never this machine's: neither its variables nor its files nor its metadata are asked for any.
 */
export const awsSecretsManager: Destination = {
  config: () => config,
  credentials,
  faults: (given) =>
    ["access_key_id", "secret_access_key"]
      .filter((field) => !Object.hasOwn(given, field))
      .map((field) => ({ field, message: "is required" })),
  place: (checked) => placeOf(checked as Config),
  open: (means) => new SecretsManagerWriter(means),
};

class SecretsManagerWriter implements Writer {
  readonly #means: Means;

  constructor(means: Means) {
    this.#means = means;
  }

  async write(entry: Entry, site: Site, signal: AbortSignal): Promise<void> {
    if (entry.value === "") throw empty();
    const secret = await this.#open(site, signal);
    const there = await secret.describe();
    if (there === undefined && (await secret.create(entry))) return;
    const own = owned(entry, there ?? (await secret.describe()));
    if (own.DeletedDate !== undefined) throw deleted();
    await secret.encryptAsSaid(own);
    await secret.put(own, entry);
  }

  async remove(entry: Pick<Entry, "linkId">, site: Site, signal: AbortSignal): Promise<void> {
    const secret = await this.#open(site, signal);
    const there = await secret.describe();
    if (there === undefined) return;
    const own = owned(entry, there);
    if (own.DeletedDate === undefined) await secret.remove(own);
  }

  #open(site: Site, signal: AbortSignal): Promise<AwsSecret> {
    const { region, secret_name: name, kms_key_id: kmsKeyId } = site.config as Config;
    const { access_key_id: accessKeyId, secret_access_key: secretAccessKey, ...rest } = site.credentials as Credentials;
    const session = rest.session_token === undefined ? {} : { sessionToken: rest.session_token };
    const place = { endpoint: endpointOf(site.config as Config), region, name, kmsKeyId };
    return AwsSecret.open(this.#means.outbound, place, { accessKeyId, secretAccessKey, ...session }, signal);
  }
}

/** Throws unless the link made the secret. */
function owned({ linkId }: Pick<Entry, "linkId">, there: Description | undefined): Description {
  if (there === undefined) throw new TargetError("refused", `the secret appears and disappears at ${awsName}`);
  if (there.Tags?.some(({ Key, Value }) => Key === linkTag && Value === linkId) === true) return there;
  const message = `the secret is there without the tag ${linkTag} of this link, and is left as it is`;
  throw new TargetError("foreign", message, { permanent: true, unchanged: true });
}

const empty = () =>
  new TargetError("invalid", `${awsName} keeps no empty values`, { permanent: true, unchanged: true });

/** Whoever had it deleted may have meant it: it is not restored from here. */
const deleted = () =>
  new TargetError("refused", `${awsName} is about to delete the secret; restore it there, or wait until it is gone`, {
    unchanged: true,
  });

/** The domains of AWS's partitions, by how the names of their regions begin. */
const domains: readonly (readonly [string, string])[] = [
  ["cn-", "amazonaws.com.cn"],
  ["eusc-", "amazonaws.eu"],
  ["us-iso-", "c2s.ic.gov"],
  ["us-isob-", "sc2s.sgov.gov"],
  ["us-isof-", "csp.hci.ic.gov"],
  ["eu-isoe-", "cloud.adc-e.uk"],
];

function endpointOf({ region, endpoint_url: url }: Config): string {
  const domain = domains.find(([prefix]) => region.startsWith(prefix))?.[1] ?? "amazonaws.com";
  return url ?? `https://secretsmanager.${region}.${domain}`;
}

function placeOf(checked: Config): Place {
  const endpoint = endpointOf(checked);
  const parts = [endpoint, checked.region, checked.secret_name];
  return { origin: new URL(endpoint).origin, name: JSON.stringify(parts) };
}
