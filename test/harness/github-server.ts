import { randomBytes, randomUUID } from "node:crypto";
import sodium from "libsodium-wrappers";
import { type Answer, type Received, TargetServer } from "./target-server.ts";

/** What a token is allowed in a repository. */
type Access = "none" | "read" | "write";

interface Stored {
  readonly value: string;
  readonly created_at: string;
  readonly updated_at: string;
}

interface KeyPair {
  readonly id: string;
  readonly publicKey: Uint8Array;
  readonly privateKey: Uint8Array;
}

/** The secrets of a repository or of an environment. */
interface Holder {
  keys: KeyPair;
  readonly secrets: Map<string, Stored>;
}

/** What GitHub answers for reasons of its own; the documentation's address follows each of its messages. */
const failed = (status: number, message: string, headers = {}): Answer => ({
  status,
  headers,
  body: { message, documentation_url: "https://docs.github.com/rest/actions/secrets", status: String(status) },
});

const notFound = failed(404, "Not Found");
const mostValueBytes = 48 * 1024;

/**
 * GitHub's REST API as far as secrets of Actions go: of repositories and of environments, with public keys, sealed boxes that
 * are opened, pages, permissions and rate limits.
 */
export class GitHubServer extends TargetServer {
  readonly #tokens = new Map<string, Access>();
  readonly #holders = new Map<string, Holder>();
  /** What stands before the API's paths, as at GitHub Enterprise Server. */
  readonly #prefix: string;

  constructor(prefix = "") {
    super();
    this.#prefix = prefix;
  }

  override async start(): Promise<this> {
    await sodium.ready;
    return await super.start();
  }

  get apiUrl(): string {
    return `${this.url}${this.#prefix}`;
  }

  token(access: Access = "write"): string {
    const token = `github_pat_${randomBytes(16).toString("hex")}`;
    this.#tokens.set(token, access);
    return token;
  }

  /** A repository, as in "octocat/hello", or an environment of one, as in "octocat/hello/production". */
  add(holder: string): void {
    this.#holders.set(holder.toLowerCase(), { keys: newKeys(), secrets: new Map() });
  }

  /** The next values must be sealed with another key. */
  replaceKey(holder: string): void {
    this.#holder(holder).keys = newKeys();
  }

  /** By somebody else. */
  set(holder: string, name: string, value: string): void {
    const now = new Date().toISOString();
    this.#holder(holder).secrets.set(name, { value, created_at: now, updated_at: now });
  }

  delete(holder: string, name: string): void {
    this.#holder(holder).secrets.delete(name);
  }

  /** What a workflow gets. */
  secrets(holder: string): Record<string, string> {
    const { secrets } = this.#holder(holder);
    return Object.fromEntries([...secrets].map(([name, { value }]) => [name, value]));
  }

  protected override answer(request: Received): Answer {
    const answer = this.#answer(request);
    const reset = String(Math.floor(Date.now() / 1000) + 3600);
    const limits = { "x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4999", "x-ratelimit-reset": reset };
    return { ...answer, headers: { ...limits, ...answer.headers } };
  }

  #answer(request: Received): Answer {
    const { headers } = request;
    if (headers["user-agent"] === undefined) return failed(403, "Request forbidden by administrative rules.");
    if (headers["x-github-api-version"] !== "2022-11-28") return failed(400, "Not a supported version");
    const access = this.#tokens.get(String(headers.authorization).replace(/^Bearer /, ""));
    if (access === undefined) return failed(401, "Bad credentials");
    const [, owner, repository, , environment, rest] =
      /^\/repos\/([^/]+)\/([^/]+)\/(actions|environments\/(.+))\/secrets(?:\/([^/]+))?$/.exec(
        request.path.slice(this.#prefix.length),
      ) ?? [];
    const name = [owner, repository, environment].filter((part) => part !== undefined).join("/");
    const holder = this.#holders.get(name.toLowerCase());
    // What may not be seen is not there.
    if (holder === undefined || access === "none" || !request.path.startsWith(this.#prefix)) return notFound;
    if (rest === "public-key") return publicKeyOf(holder);
    if (access === "read" && request.method !== "GET")
      return failed(403, "Resource not accessible by personal access token");
    return rest === undefined ? listOf(holder, request) : one(holder, rest.toUpperCase(), request);
  }

  #holder(name: string): Holder {
    const holder = this.#holders.get(name.toLowerCase());
    if (holder === undefined) throw new Error(`the test has made no ${name}`);
    return holder;
  }
}

function newKeys(): KeyPair {
  const { publicKey, privateKey } = sodium.crypto_box_keypair();
  return { id: randomUUID(), publicKey, privateKey };
}

function publicKeyOf({ keys }: Holder): Answer {
  return { status: 200, body: { key_id: keys.id, key: Buffer.from(keys.publicKey).toString("base64") } };
}

function listOf({ secrets }: Holder, { query }: Received): Answer {
  const [perPage, page] = [Number(query.get("per_page") ?? 30), Number(query.get("page") ?? 1)];
  const all = [...secrets].map(([name, { created_at, updated_at }]) => ({ name, created_at, updated_at }));
  const shown = all.slice((page - 1) * Math.min(100, perPage)).slice(0, Math.min(100, perPage));
  return { status: 200, body: { total_count: all.length, secrets: shown } };
}

function one(holder: Holder, name: string, request: Received): Answer {
  const stored = holder.secrets.get(name);
  switch (request.method) {
    case "GET":
      return stored === undefined ? notFound : { status: 200, body: { ...stored, name, value: undefined } };
    case "DELETE":
      return holder.secrets.delete(name) ? { status: 204 } : notFound;
    default:
      return put(holder, name, JSON.parse(request.body));
  }
}

function put({ keys, secrets }: Holder, name: string, given: { encrypted_value?: string; key_id?: string }): Answer {
  if (!/^(?!GITHUB_|\d)[A-Z0-9_]+$/.test(name)) return failed(422, "Secret names can only contain …");
  if (given.key_id !== keys.id) return failed(422, "Bad request - try again.");
  const box = Buffer.from(given.encrypted_value ?? "", "base64");
  let value: Buffer;
  try {
    value = Buffer.from(sodium.crypto_box_seal_open(box, keys.publicKey, keys.privateKey));
  } catch {
    return failed(422, "Bad request - validation failed due to an improperly encrypted secret");
  }
  if (value.length > mostValueBytes) return failed(422, "Secret value is too large");
  const now = new Date().toISOString();
  const before = secrets.get(name);
  secrets.set(name, { value: value.toString(), created_at: before?.created_at ?? now, updated_at: now });
  return before === undefined ? { status: 201, body: {} } : { status: 204 };
}
