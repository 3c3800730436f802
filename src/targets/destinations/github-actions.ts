import { z } from "zod";
import type { Means } from "../means.ts";
import { orElse } from "../settings.ts";
import { TargetError } from "../target-error.ts";
import { baseUrl } from "./base-url.ts";
import type { Destination, Entry, Place, Site, Writer } from "./destination.ts";
import { GitHubClient } from "./github-client.ts";
import { jsonOf } from "./json-answer.ts";

/** A name that GitHub takes (its "Secrets reference", "Naming your secrets"); it keeps all names in upper case. */
const secretName = z
  .string()
  .regex(/^[a-z_][a-z0-9_]{0,254}$/i, "must be letters, digits and _, and begin with no digit")
  .refine((name) => !/^GITHUB_/i.test(name), "must not begin with GITHUB_")
  .transform((name) => name.toUpperCase());

const configFor = (key: string) =>
  z.strictObject({
    owner: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,99}$/i, "must be the name of a user or an organization"),
    repository: z
      .string()
      .regex(/^(?!\.{1,2}$)[a-z0-9._-]{1,100}$/i, "must be the name of a repository, without its owner"),
    environment: z
      .string()
      .regex(/^(?!\.{1,2}$)[^\p{C}]{1,255}$/u, "must be the name of an environment")
      .exactOptional(),
    secret_name: orElse(secretName, legalName(key)),
    api_url: orElse(baseUrl, "https://api.github.com"),
  });

const credentials = z.strictObject({
  token: z.string().regex(/^[\x21-\x7e]{1,4096}$/, "must be visible ASCII characters"),
});

type Config = z.output<ReturnType<typeof configFor>>;
type Credentials = z.output<typeof credentials>;

const PublicKey = z.object({ key_id: z.string(), key: z.base64() });
const Listed = z.object({ secrets: z.array(z.object({ name: z.string() })) });

/** GitHub's limit of a value is 48 KB. */
const mostValueBytes = 48 * 1024;
const perPage = 100;
/** More than GitHub lets a repository or an environment have (100), as long as it says so. */
const mostPages = 10;

/** A secret of GitHub Actions, of a repository or of one of its environments. */
export const githubActions: Destination = {
  config: configFor,
  credentials,
  faults: (given) => (Object.hasOwn(given, "token") ? [] : [{ field: "token", message: "is required" }]),
  place: (checked) => placeOf(checked as Config),
  open: (means) => new GitHubActionsWriter(means),
};

class GitHubActionsWriter implements Writer {
  readonly #means: Means;

  constructor(means: Means) {
    this.#means = means;
  }

  async write({ value }: Entry, site: Site, signal: AbortSignal): Promise<void> {
    if (Buffer.byteLength(value) > mostValueBytes) throw tooLong();
    const secret = new NamedSecret(this.#means, site, signal);
    const key = await secret.publicKey();
    if (!site.owned) {
      if (await secret.isThere()) throw foreign(site.config as Config);
      await site.own();
    }
    if (await secret.put(value, key)) return;
    // The key was replaced in between.
    if (!(await secret.put(value, await secret.publicKey()))) throw notTaken();
  }

  async remove(_: Pick<Entry, "linkId">, site: Site, signal: AbortSignal): Promise<void> {
    const secret = new NamedSecret(this.#means, site, signal);
    if (!(await secret.isThere())) return;
    if (!site.owned) throw foreign(site.config as Config);
    await secret.remove();
  }
}

/** The secret that a link's configuration names. */
class NamedSecret {
  readonly #github: GitHubClient;
  readonly #folder: string;
  readonly #name: string;

  constructor(means: Means, site: Site, signal: AbortSignal) {
    const { api_url: apiUrl, owner, repository, environment, secret_name: name } = site.config as Config;
    const { token } = site.credentials as Credentials;
    const folder = environment === undefined ? "actions" : `environments/${encodeURIComponent(environment)}`;
    const permission = `"${environment === undefined ? "Secrets" : "Environments"}" of the repository, read and write`;
    this.#github = new GitHubClient({ means, apiUrl, token, permission, signal });
    this.#folder = `/repos/${owner}/${repository}/${folder}/secrets`;
    this.#name = name;
  }

  /** As the list says it: of a single secret GitHub also says that there is none to who may not see it. */
  async isThere(): Promise<boolean> {
    for (let page = 1; page <= mostPages; page += 1) {
      const answer = await this.#github.send("GET", `${this.#folder}?per_page=${perPage}&page=${page}`);
      const { secrets } = jsonOf("GitHub", answer, Listed);
      if (secrets.some(({ name }) => name.toUpperCase() === this.#name)) return true;
      if (secrets.length < perPage) return false;
    }
    throw new TargetError("invalid", "GitHub lists secrets without end");
  }

  async publicKey(): Promise<z.output<typeof PublicKey>> {
    return jsonOf("GitHub", await this.#github.send("GET", `${this.#folder}/public-key`), PublicKey);
  }

  /** False when GitHub does not take what is sealed with this key. */
  async put(value: string, { key, key_id }: z.output<typeof PublicKey>): Promise<boolean> {
    const body = { encrypted_value: await sealed(value, key), key_id };
    const answer = await this.#github.send("PUT", `${this.#folder}/${this.#name}`, { body, passes: [422] });
    if (answer.status === 201 || answer.status === 204) return true;
    if (answer.status === 422) return false;
    throw new TargetError("invalid", `GitHub answered ${answer.status}, which confirms nothing`);
  }

  async remove(): Promise<void> {
    await this.#github.send("DELETE", `${this.#folder}/${this.#name}`, { passes: [404] });
  }
}

/** In a sealed box of libsodium, which only the holder of the private key can open. */
async function sealed(value: string, key: string): Promise<string> {
  // Costs 19 MB, and so is loaded only where a link of this kind is written.
  const { default: sodium } = await import("libsodium-wrappers");
  await sodium.ready;
  try {
    return Buffer.from(sodium.crypto_box_seal(value, Buffer.from(key, "base64"))).toString("base64");
  } catch (cause) {
    throw new TargetError("invalid", "GitHub answered no usable public key", { cause });
  }
}

/** The name of a secret of ours, as far as GitHub's rules allow it. */
function legalName(key: string): string {
  const name = key.toUpperCase().replace(/[^A-Z0-9_]/g, "_");
  return (/^(\d|GITHUB_)/.test(name) ? `_${name}` : name).slice(0, 255);
}

function placeOf({ api_url: apiUrl, owner, repository, environment = "", secret_name: name }: Config): Place {
  const repositoryName = `${owner}/${repository}`.toLowerCase();
  const parts = [apiUrl, repositoryName, environment.toLowerCase(), name];
  return { origin: new URL(apiUrl).origin, name: JSON.stringify(parts) };
}

function foreign({ owner, repository, secret_name: name }: Config): TargetError {
  const message = `${owner}/${repository} has a secret ${name} already that this link did not make; it is left as it is`;
  return new TargetError("foreign", message, { permanent: true, unchanged: true });
}

const tooLong = () =>
  new TargetError("invalid", "GitHub takes values of at most 48 KB", { permanent: true, unchanged: true });

const notTaken = () =>
  new TargetError("refused", "GitHub answered 422: it does not take the secret", { permanent: true, unchanged: true });
