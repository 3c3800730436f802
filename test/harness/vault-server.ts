import { randomUUID } from "node:crypto";
import { type Answer, type Received, TargetServer } from "./target-server.ts";

type Json = unknown;
type Fields = Readonly<Record<string, Json>>;
type CustomMetadata = Readonly<Record<string, string>>;

/** What a token may do: capabilities by paths, of which the last character may be *. */
export type Policy = Readonly<Record<string, readonly string[]>>;

interface Version {
  /** As JSON; undefined when it is destroyed. */
  data: string | undefined;
  deletedAt: string;
}

/** A secret of KV version 2. */
interface Secret {
  readonly versions: Map<number, Version>;
  version: number;
  metadataVersion: number;
  custom: CustomMetadata | null;
}

type Mount =
  | { readonly version: 1; readonly secrets: Map<string, string>; readonly type?: string }
  | { readonly version: 2; readonly secrets: Map<string, Secret> };

interface Role {
  readonly secretId: string;
  readonly policy: Policy;
}

interface VaultOptions {
  /** OpenBao makes metadata under a condition, which Vault does not know. */
  readonly product?: "vault" | "openbao";
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer };
}

const all = ["create", "read", "update", "patch", "delete"];
const keptVersions = 10;

class Refused extends Error {
  readonly answer: Answer;

  constructor(status: number, ...errors: string[]) {
    super(errors.join());
    this.answer = { status, body: { errors } };
  }
}

/**
 * The HTTP API of Vault as far as KV, AppRole and tokens go: as its documentation and the source of OpenBao's engine say,
 * with policies, namespaces, check-and-set, patches, custom metadata and soft deletion.
 */
export class VaultServer extends TargetServer {
  readonly rootToken = `hvs.${randomUUID()}`;
  readonly #tokens = new Map<string, Policy>([[this.rootToken, { "*": all }]]);
  readonly #roles = new Map<string, Role>();
  readonly #mounts = new Map<string, Mount>();
  readonly #isOpenBao: boolean;
  isSealed = false;
  /** Where a standby node sends everybody. */
  activeNode: string | undefined;

  constructor({ product = "vault", tls }: VaultOptions = {}) {
    super(tls);
    this.#isOpenBao = product === "openbao";
    this.mount("secret", 2);
  }

  mount(path: string, version: 1 | 2, namespace = ""): void {
    this.#mounts.set(`${namespace}:${path}`, { version, secrets: new Map() });
  }

  /** Something else that takes requests as KV version 1 does, as those who log in by roles. */
  mountOther(path: string, type: string): void {
    this.#mounts.set(`:${path}`, { version: 1, secrets: new Map(), type });
  }

  token(policy: Policy): string {
    const token = `hvs.${randomUUID()}`;
    this.#tokens.set(token, policy);
    return token;
  }

  /** What a role logs in with. */
  role(policy: Policy): { role_id: string; secret_id: string } {
    const [roleId, secretId] = [randomUUID(), randomUUID()];
    this.#roles.set(roleId, { secretId, policy });
    return { role_id: roleId, secret_id: secretId };
  }

  /** Beside the one of the root. */
  get liveTokens(): number {
    return this.#tokens.size - 1;
  }

  /** What anybody else sends. */
  ask(method: string, path: string, body: Json = {}, namespace = ""): Answer {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const headers = { "x-vault-token": this.rootToken, "x-vault-namespace": namespace, "content-type": type };
    const query = new URLSearchParams();
    return this.answer({ method, path: `/v1/${path}`, query, headers, body: JSON.stringify(body) });
  }

  /** The current data, as a reader is told them. */
  fieldsAt(path: string, namespace = ""): Fields | undefined {
    const { status, body } = this.ask("GET", path, {}, namespace);
    return status === 200 ? (body as { data: { data: Fields } }).data.data : undefined;
  }

  /** As JSON; undefined where there is no secret. */
  metadataAt(path: string): CustomMetadata | null | undefined {
    const { status, body } = this.ask("GET", path);
    return status === 200 ? (body as { data: { custom_metadata: CustomMetadata } }).data.custom_metadata : undefined;
  }

  protected override answer(request: Received): Answer {
    if (this.isSealed) return { status: 503, body: { errors: ["Vault is sealed"] } };
    if (this.activeNode !== undefined) return { status: 307, headers: { location: this.activeNode } };
    try {
      return this.#answer(
        request,
        request.path.replace(/^(\/vault)?\/v1\//, ""),
        String(request.headers["x-vault-namespace"] ?? ""),
      );
    } catch (error) {
      if (error instanceof Refused) return error.answer;
      throw error;
    }
  }

  #answer(request: Received, path: string, namespace: string): Answer {
    const { method } = request;
    if (method === "POST" && path === "auth/approle/login") return this.#login(bodyOf(request));
    const token = String(request.headers["x-vault-token"]);
    const policy = this.#tokens.get(token);
    if (policy === undefined)
      throw new Refused(403, "2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n");
    if (method === "POST" && path === "auth/token/revoke-self") {
      this.#tokens.delete(token);
      return { status: 204 };
    }
    if (path.startsWith("sys/internal/ui/mounts/")) return this.#mountInfo(path.slice(23), namespace, policy);
    const { mount, rest } = this.#mountOf(path, namespace);
    const has = existsIn(mount, rest);
    if (!capabilityFor(policy, path).has(neededFor(method, has)))
      throw new Refused(403, "1 error occurred:\n\t* permission denied\n\n");
    return mount.version === 1 ? kvV1(mount.secrets, request, rest) : this.#kvV2(mount.secrets, request, rest);
  }

  #login({ role_id: roleId, secret_id: secretId }: Fields): Answer {
    const role = this.#roles.get(String(roleId));
    // Vault repeats some of what it refuses.
    if (role === undefined || role.secretId !== secretId)
      throw new Refused(400, `invalid role or secret ID "${String(secretId)}"`);
    const clientToken = this.token(role.policy);
    return { status: 200, body: { auth: { client_token: clientToken, lease_duration: 2764800, renewable: true } } };
  }

  #mountOf(path: string, namespace: string): { name: string; mount: Mount; rest: string } {
    for (const [key, mount] of this.#mounts) {
      const name = key.slice(namespace.length + 1);
      if (key.startsWith(`${namespace}:`) && path.startsWith(`${name}/`))
        return { name, mount, rest: path.slice(name.length + 1) };
    }
    throw new Refused(404, `no handler for route "${path}". route entry not found.`);
  }

  #mountInfo(path: string, namespace: string, policy: Policy): Answer {
    const denied = new Refused(
      403,
      `preflight capability check returned 403, please ensure client's policies grant access to path "${path}/"`,
    );
    try {
      const { name, mount } = this.#mountOf(path, namespace);
      if (!Object.keys(policy).some((each) => each === "*" || each.startsWith(`${name}/`))) throw denied;
      const options = mount.version === 2 ? { version: "2" } : null;
      const type = mount.version === 1 ? (mount.type ?? "kv") : "kv";
      return { status: 200, body: { data: { type, path: `${name}/`, options } } };
    } catch {
      throw denied;
    }
  }

  #kvV2(secrets: Map<string, Secret>, request: Received, rest: string): Answer {
    const [, kind, path = ""] = /^(data|metadata|delete|undelete|destroy)\/(.+)$/.exec(rest) ?? [];
    if (kind === undefined)
      return { status: 404, body: { warnings: ["Invalid path for a versioned K/V secrets engine."] } };
    const secret = secrets.get(path);
    if (kind === "data") return dataAnswer(secrets, path, secret, request);
    if (kind === "metadata") return this.#metadataAnswer(secrets, path, secret, request);
    for (const number of bodyOf(request)["versions"] as number[]) {
      const version = secret?.versions.get(number);
      if (version === undefined) continue;
      if (kind === "destroy") version.data = undefined;
      else version.deletedAt = kind === "delete" ? now() : "";
    }
    return { status: 204 };
  }

  #metadataAnswer(secrets: Map<string, Secret>, path: string, secret: Secret | undefined, request: Received): Answer {
    if (request.method === "GET")
      return secret === undefined ? nothing : { status: 200, body: { data: metadataOf(secret) } };
    if (request.method === "DELETE") {
      secrets.delete(path);
      return { status: 204 };
    }
    const { custom_metadata: given = {}, metadata_cas: cas } = bodyOf(request) as {
      custom_metadata?: object;
      metadata_cas?: number;
    };
    const changes = Object.entries(given) as [string, string | null][];
    checkCustomMetadata(changes.filter(([, value]) => request.method !== "PATCH" || value !== null));
    if (this.#isOpenBao && cas !== undefined && cas !== (secret?.metadataVersion ?? 0))
      throw new Refused(400, "metadata check-and-set parameter does not match the current version");
    if (request.method === "PATCH") {
      checkPatch(request);
      if (secret === undefined) return nothing;
      secret.custom = mergePatch(secret.custom ?? {}, given) as CustomMetadata;
      secret.metadataVersion += 1;
      return { status: 204 };
    }
    const made = secret ?? newSecret();
    made.custom = given as CustomMetadata;
    made.metadataVersion += 1;
    secrets.set(path, made);
    const ignored = !this.#isOpenBao && cas !== undefined;
    return ignored
      ? { status: 200, body: { warnings: ["Endpoint ignored these unrecognized parameters: [metadata_cas]"] } }
      : { status: 204 };
  }
}

const nothing: Answer = { status: 404, body: { errors: [] } };
const now = () => new Date().toISOString();
const newSecret = (): Secret => ({ versions: new Map(), version: 0, metadataVersion: 0, custom: null });

function bodyOf({ body }: Received): Record<string, Json> {
  try {
    return JSON.parse(body);
  } catch {
    throw new Refused(400, `failed to parse JSON input: ${body}`);
  }
}

function existsIn({ version, secrets }: Mount, rest: string): boolean {
  return secrets.has(version === 1 ? rest : rest.replace(/^[a-z]+\//, ""));
}

/** What Vault asks the policies for (its "Policies", "Capabilities"). */
function neededFor(method: string, exists: boolean): string {
  const needed = { GET: "read", PATCH: "patch", DELETE: "delete" }[method];
  return needed ?? (exists ? "update" : "create");
}

/** Of the policy's longest path that fits. */
function capabilityFor(policy: Policy, path: string): ReadonlySet<string> {
  const fits = (pattern: string) =>
    pattern === path || (pattern.endsWith("*") && path.startsWith(pattern.slice(0, -1)));
  const [best = ""] = Object.keys(policy)
    .filter(fits)
    .sort((a, b) => b.length - a.length);
  return new Set(policy[best] ?? []);
}

function checkPatch({ headers }: Received): void {
  if (headers["content-type"] !== "application/merge-patch+json")
    throw new Refused(
      415,
      `PATCH requires Content-Type of application/merge-patch+json, provided ${headers["content-type"]}`,
    );
}

function checkCustomMetadata(entries: readonly (readonly [string, string | null])[]): void {
  const prefix = "custom_metadata validation failed";
  if (entries.length > 64)
    throw new Refused(400, `${prefix}: payload must contain at most 64 keys, provided ${entries.length}`);
  for (const [key, value] of entries) {
    if (key.length === 0 || Buffer.byteLength(key) > 128) throw new Refused(400, `${prefix}: length of key "${key}"`);
    if (value === null || value === "" || Buffer.byteLength(value) > 512)
      throw new Refused(400, `${prefix}: length of value for key "${key}"`);
    if (/[^\x20-\x7e]/.test(key + value))
      throw new Refused(400, `${prefix}: key "${key}" contains unprintable characters`);
  }
}

/** RFC 7396. */
function mergePatch(target: Json, patch: Json): Json {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const merged: Record<string, Json> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = mergePatch(merged[key], value);
  }
  return merged;
}

const isObject = (value: Json): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

function kvV1(secrets: Map<string, string>, request: Received, path: string): Answer {
  const stored = secrets.get(path);
  switch (request.method) {
    case "GET":
      return stored === undefined
        ? nothing
        : { status: 200, body: { data: JSON.parse(stored), lease_duration: 2764800 } };
    case "DELETE":
      secrets.delete(path);
      return { status: 204 };
    case "PATCH":
      throw new Refused(405, "1 error occurred:\n\t* unsupported operation\n\n");
    default:
      secrets.set(path, request.body);
      return { status: 204 };
  }
}

function dataAnswer(secrets: Map<string, Secret>, path: string, secret: Secret | undefined, request: Received): Answer {
  switch (request.method) {
    case "GET":
      return dataOf(secret, Number(request.query.get("version") ?? 0));
    case "DELETE": {
      const current = secret?.versions.get(secret.version);
      if (current !== undefined && current.deletedAt === "") current.deletedAt = now();
      return { status: 204 };
    }
    case "PATCH": {
      checkPatch(request);
      if (secret === undefined) return nothing;
      checkCas(secret, request);
      const { deletedAt, data } = secret.versions.get(secret.version) ?? { deletedAt: "never", data: undefined };
      if (deletedAt !== "" || data === undefined) return { ...dataOf(secret, 0), status: 404 };
      return addVersion(secret, mergePatch(JSON.parse(data), bodyOf(request)["data"]));
    }
    default: {
      const { data } = bodyOf(request);
      if (!isObject(data)) throw new Refused(400, "no data provided");
      const written = secret ?? newSecret();
      checkCas(written, request);
      secrets.set(path, written);
      return addVersion(written, data);
    }
  }
}

function checkCas(secret: Secret, request: Received): void {
  const { cas } = (bodyOf(request)["options"] ?? {}) as { cas?: number };
  if (cas !== undefined && cas !== secret.version)
    throw new Refused(400, "check-and-set parameter did not match the current version");
}

function addVersion(secret: Secret, data: Json): Answer {
  secret.version += 1;
  secret.versions.set(secret.version, { data: JSON.stringify(sorted(data)), deletedAt: "" });
  secret.versions.delete(secret.version - keptVersions);
  return { status: 200, body: { data: versionOf(secret, secret.version) } };
}

/** Vault writes the keys of objects in order. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key])]),
  );
}

function dataOf(secret: Secret | undefined, asked: number): Answer {
  const number = asked === 0 ? (secret?.version ?? 0) : asked;
  const version = secret?.versions.get(number);
  if (secret === undefined || version === undefined) return nothing;
  const isGone = version.deletedAt !== "" || version.data === undefined;
  const data = isGone ? null : JSON.parse(version.data as string);
  return { status: isGone ? 404 : 200, body: { data: { data, metadata: versionOf(secret, number) } } };
}

function versionOf(secret: Secret, number: number): Fields {
  const { data, deletedAt = "" } = secret.versions.get(number) ?? { data: undefined };
  return { version: number, deletion_time: deletedAt, destroyed: data === undefined, custom_metadata: secret.custom };
}

function metadataOf(secret: Secret): Fields {
  const versions = [...secret.versions.keys()].map((number) => [number, versionOf(secret, number)] as const);
  return { current_version: secret.version, custom_metadata: secret.custom, versions: Object.fromEntries(versions) };
}
