import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { LoopbackServer } from "./loopback-server.ts";
import type { Trouble } from "./trouble.ts";

/** A Secret as a cluster keeps and says it. */
interface KeptSecret extends JsonObject {
  kind: "Secret";
  apiVersion: "v1";
  type: string;
  data?: Record<string, string>;
  metadata: { name: string; namespace: string; uid: string; resourceVersion: string } & JsonObject;
}

interface KubernetesRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly userAgent: string | undefined;
}

/** What a cluster says of a failure: an object of the kind Status. */
class StatusError extends Error {
  readonly code: number;
  readonly reason: string;
  readonly details: JsonObject;

  constructor(code: number, reason: string, message: string, details: JsonObject = {}) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.details = details;
  }
}

const mostDataBytes = 1024 * 1024;
const verbs: Readonly<Record<string, string>> = { GET: "get", POST: "create", PATCH: "patch", DELETE: "delete" };

/**
 * Stands in for the API server of a Kubernetes cluster, for Secrets: get, create, merge patch and delete, with versions of
 * resources and preconditions, what is immutable, who may do what, and its failures as Status.
 */
export class KubernetesServer extends LoopbackServer {
  readonly token = "eyJhbGciOiJSUzI1NiJ9.of-a-service-account";
  /** In order. */
  readonly requests: KubernetesRequest[] = [];
  /** What happens to the next requests, one after the other; undefined for nothing special. */
  troubles: (Trouble | undefined)[] = [];
  /** What the token is good for; everything if undefined. */
  allowed: ReadonlySet<string> | undefined;
  /** Called when a request has been done, before it is answered. */
  whenDone: (() => void) | undefined;
  /** Like a mutating admission webhook. */
  mutate: ((secret: KeptSecret) => void) | undefined;
  readonly #secrets = new Map<string, KeptSecret>();
  #revision = 1000;

  /** As on the first day: the namespaces "apps" and "other", with nothing in them. */
  reset(): void {
    this.#secrets.clear();
    this.requests.length = 0;
    this.troubles = [];
    this.allowed = undefined;
    this.whenDone = undefined;
    this.mutate = undefined;
  }

  /** A Secret that somebody else made. */
  prefill(name: string, data: Readonly<Record<string, string>>, fields: JsonObject = {}): void {
    const { metadata, ...rest } = fields;
    this.#keep("apps", { type: "Opaque", ...rest, data: encoded(data), metadata: { ...(metadata as object), name } });
  }

  /** Changes values by somebody else. */
  setByHand(name: string, data: Readonly<Record<string, string | null>>): void {
    const there = this.#secrets.get(`apps/${name}`) as KeptSecret;
    this.#keep("apps", merged(there, { data: encoded(data) }) as JsonObject);
  }

  removeByHand(name: string): void {
    this.#secrets.delete(`apps/${name}`);
  }

  /** The value of a data key, or undefined. */
  valueAt(name: string, dataKey: string): string | undefined {
    const found = this.#secrets.get(`apps/${name}`)?.data?.[dataKey];
    return found === undefined ? undefined : Buffer.from(found, "base64").toString();
  }

  /** What is kept of a Secret, to be compared; undefined for none. */
  secret(name: string): KeptSecret | undefined {
    return structuredClone(this.#secrets.get(`apps/${name}`));
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
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
  }

  #answer(request: IncomingMessage, text: string): [number, JsonObject] {
    try {
      const { pathname: path, searchParams: query } = new URL(request.url ?? "", "http://cluster");
      const body = text === "" ? {} : (JSON.parse(text) as JsonObject);
      const { method = "", headers } = request;
      this.requests.push({ method, path, query, userAgent: headers["user-agent"] });
      if (headers.authorization !== `Bearer ${this.token}`) throw new StatusError(401, "Unauthorized", "Unauthorized");
      const [, namespace, name] = /^\/api\/v1\/namespaces\/([^/]+)\/secrets(?:\/([^/]+))?$/.exec(path) ?? [];
      if (namespace === undefined) throw new StatusError(404, "NotFound", "the server could not find the resource");
      const verb = verbs[method] ?? "";
      if (this.allowed?.has(verb) === false) throw forbidden(name ?? "", `User "u" cannot ${verb} resource "secrets"`);
      return [method === "POST" ? 201 : 200, this.#perform(verb, namespace, name ?? "", body, headers["content-type"])];
    } catch (error) {
      const { code = 500, reason = "InternalError", message = "", details = {} } = error as Partial<StatusError>;
      return [
        code,
        { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, details, code },
      ];
    }
  }

  #perform(
    verb: string,
    namespace: string,
    name: string,
    body: JsonObject,
    contentType: string | undefined,
  ): JsonObject {
    const there = this.#secrets.get(`${namespace}/${name}`);
    if (verb === "create") return this.#create(namespace, body);
    if (there === undefined) throw notFound("secrets", name);
    if (verb === "get") return there;
    if (verb === "delete") return this.#delete(there, body);
    if (contentType !== "application/merge-patch+json")
      throw new StatusError(415, "UnsupportedMediaType", "the body of the request was in an unknown format");
    return this.#patch(there, body);
  }

  #create(namespace: string, body: JsonObject): KeptSecret {
    const { name = "" } = body["metadata"] as { name?: string };
    if (!["apps", "other"].includes(namespace)) throw notFound("namespaces", namespace);
    if (this.#secrets.has(`${namespace}/${name}`))
      throw new StatusError(409, "AlreadyExists", `secrets "${name}" already exists`, { name, kind: "secrets" });
    return this.#keep(namespace, body);
  }

  #patch(there: KeptSecret, patch: JsonObject): KeptSecret {
    checkVersion(there, (patch["metadata"] as JsonObject | undefined)?.["resourceVersion"]);
    const after = merged(there, patch) as KeptSecret;
    if (there["immutable"] === true && JSON.stringify(there.data) !== JSON.stringify(after.data)) {
      const message = "field is immutable when `immutable` is set";
      throw invalid(there.metadata.name, { reason: "FieldValueForbidden", message, field: "data" });
    }
    return this.#keep(there.metadata.namespace, after);
  }

  #delete({ metadata }: KeptSecret, options: JsonObject): JsonObject {
    const { resourceVersion } = (options["preconditions"] ?? {}) as { resourceVersion?: string };
    checkVersion({ metadata } as KeptSecret, resourceVersion);
    this.#secrets.delete(`${metadata.namespace}/${metadata.name}`);
    return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details: { kind: "secrets" } };
  }

  #keep(namespace: string, given: JsonObject): KeptSecret {
    const metadata = given["metadata"] as Partial<KeptSecret["metadata"]>;
    const { name = "", uid = randomUUID() } = metadata;
    const own = { name, namespace, uid, resourceVersion: `${++this.#revision}` };
    const secret = { ...structuredClone(given), metadata: { ...metadata, ...own } } as KeptSecret;
    const kept: KeptSecret = { ...secret, kind: "Secret", apiVersion: "v1" };
    if (kept.data !== undefined && Object.keys(kept.data).length === 0) delete kept.data;
    check(kept);
    this.mutate?.(kept);
    this.#secrets.set(`${namespace}/${name}`, kept);
    return kept;
  }
}

/** What Kubernetes checks of a Secret (ValidateSecret, and of annotations IsQualifiedName). */
function check({ metadata, data = {} }: KeptSecret): void {
  for (const key of Object.keys(data)) {
    if (!/^[-._a-zA-Z0-9]{1,253}$/.test(key) || /^\.($|\.)/.test(key))
      throw invalid(metadata.name, { reason: "FieldValueInvalid", message: "Invalid value", field: `data[${key}]` });
  }
  for (const key of Object.keys((metadata["annotations"] as object | undefined) ?? {})) {
    if (!/^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(key))
      throw invalid(metadata.name, { reason: "FieldValueInvalid", message: key, field: "metadata.annotations" });
  }
  const size = Object.values(data).reduce((sum, value) => sum + Buffer.from(value, "base64").length, 0);
  if (size > mostDataBytes)
    throw invalid(metadata.name, { reason: "FieldValueTooLong", message: "Too long: may not be more", field: "data" });
}

function checkVersion({ metadata }: KeptSecret, wanted: JsonValue | undefined): void {
  if (wanted === undefined || wanted === metadata.resourceVersion) return;
  const message = `Operation cannot be fulfilled on secrets "${metadata.name}": the object has been modified`;
  throw new StatusError(409, "Conflict", message, { name: metadata.name, kind: "secrets" });
}

/** JSON merge patch (RFC 7396). */
function merged(there: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch;
  const result: JsonObject = isObject(there) ? { ...there } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = merged(result[name], value);
  }
  return result;
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const encoded = (data: Readonly<Record<string, string | null>>): Record<string, string | null> =>
  Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, value === null ? null : Buffer.from(value).toString("base64")]),
  );

const notFound = (kind: string, name: string) =>
  new StatusError(404, "NotFound", `${kind} "${name}" not found`, { name, kind });

const forbidden = (name: string, why: string) =>
  new StatusError(403, "Forbidden", `secrets "${name}" is forbidden: ${why}`, { name, kind: "secrets" });

const invalid = (name: string, cause: { reason: string; message: string; field: string }) =>
  new StatusError(422, "Invalid", `Secret "${name}" is invalid: ${cause.field}: ${cause.message}`, {
    name,
    kind: "Secret",
    causes: [cause],
  });
