import { z } from "zod";
import type { OutboundAnswer } from "../../outbound/exchange.ts";
import { isSuccess, notAnswered, refusalOf } from "../http-target.ts";
import { type Means, userAgent } from "../means.ts";
import { TargetError } from "../target-error.ts";
import { jsonOf } from "./json-answer.ts";

/** Where Vault is, and how it is to be trusted. */
export interface VaultLocation {
  readonly address: string;
  readonly namespace?: string;
  readonly ca_certificate_pem?: string;
}

/** A token, or what a role logs in with. */
export interface VaultCredentials {
  readonly token?: string;
  readonly role_id?: string;
  readonly secret_id?: string;
}

interface VaultUse {
  readonly means: Means;
  readonly server: VaultLocation;
  readonly credentials: VaultCredentials;
  readonly signal: AbortSignal;
}

type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** Of one request, of which each attempt makes a few. */
const usualTimeoutMs = 10_000;
/** For leaving, which is not to hold up what is done. */
const revokeTimeoutMs = 2000;
/** A secret of Vault is at most 1 MiB as it stores it. */
const mostBytes = 2 * 1024 * 1024;

/** What a policy calls the leave to send a request. */
const capabilities: Readonly<Record<Method, string>> = {
  GET: "read",
  POST: "create and update",
  PATCH: "patch",
  DELETE: "delete",
};

const Login = z.object({ auth: z.object({ client_token: z.string().regex(/^[\x21-\x7e]+$/) }) });
const Errors = z.object({ errors: z.array(z.string()).optional() });

/** The HTTP API of Vault and of OpenBao, as the holder of a token sees it. */
export class VaultClient {
  readonly #means: Means;
  readonly #server: VaultLocation;
  readonly #signal: AbortSignal;
  readonly #token: string | undefined;

  private constructor(means: Means, server: VaultLocation, signal: AbortSignal, token?: string) {
    this.#means = means;
    this.#server = server;
    this.#signal = signal;
    this.#token = token;
  }

  /** Does some work with the token that is given, or with one of the role, which is revoked afterwards. */
  static async use<T>(
    { means, server, credentials, signal }: VaultUse,
    work: (vault: VaultClient) => Promise<T>,
  ): Promise<T> {
    const { token, ...role } = credentials;
    if (token !== undefined) return await work(new VaultClient(means, server, signal, token));
    const login = await new VaultClient(means, server, signal).#login(role);
    const vault = new VaultClient(means, server, signal, login);
    try {
      return await work(vault);
    } finally {
      // Its time to live ends what could not be revoked.
      await vault.#exchange("POST", ["auth", "token", "revoke-self"], undefined, revokeTimeoutMs).catch(() => {});
    }
  }

  /** What is at a path; also the answer that says that there is nothing, of which `status` is 404. Throws a TargetError. */
  async get(path: readonly string[]): Promise<OutboundAnswer> {
    const answer = await this.#exchange("GET", path);
    const isNothing = answer.status === 404 && errorsOf(answer).length === 0;
    if (isSuccess(answer) || isNothing) return answer;
    throw explained(answer, hintFor(answer, "GET", path));
  }

  /** Throws a TargetError for whatever is no success. */
  async send(method: Method, path: readonly string[], body?: object): Promise<OutboundAnswer> {
    const answer = await this.#exchange(method, path, body);
    if (isSuccess(answer)) return answer;
    throw explained(answer, hintFor(answer, method, path));
  }

  /** The same, but answers nothing when what the request presumes is not so, or not any more. */
  async sendIf(method: Method, path: readonly string[], body: object): Promise<OutboundAnswer | undefined> {
    const answer = await this.#exchange(method, path, body);
    if (isSuccess(answer)) return answer;
    if (isOutdated(answer)) return undefined;
    throw explained(answer, hintFor(answer, method, path));
  }

  async #login(role: VaultCredentials): Promise<string> {
    const answer = await this.#exchange("POST", ["auth", "approle", "login"], role);
    if (isSuccess(answer)) return jsonOf("Vault", answer, Login).auth.client_token;
    const refused = answer.status === 400 || answer.status === 403;
    throw explained(answer, refused ? "the role_id or the secret_id is not accepted" : generalHint(answer.status));
  }

  async #exchange(method: Method, path: readonly string[], body?: object, timeoutMs = usualTimeoutMs) {
    const { address, namespace, ca_certificate_pem: certificateAuthorities } = this.#server;
    const headers = {
      accept: "application/json",
      "user-agent": userAgent,
      // An agent of Vault can be set to refuse what lacks it.
      "x-vault-request": "true",
      ...(this.#token === undefined ? {} : { "x-vault-token": this.#token }),
      ...(namespace === undefined ? {} : { "x-vault-namespace": namespace }),
      ...(body === undefined ? {} : { "content-type": contentTypeOf(method) }),
    };
    const url = `${address}/v1/${path.map(encodeURIComponent).join("/")}`;
    const content = body === undefined ? undefined : JSON.stringify(body);
    return await this.#means.outbound
      .request(url, {
        method,
        headers,
        body: content,
        timeoutMs,
        mostBytes,
        signal: this.#signal,
        certificateAuthorities,
      })
      .catch(notAnswered("Vault"));
  }
}

/** Vault's own words for what it refused. Not for people: they may repeat what was sent. */
const errorsOf = (answer: OutboundAnswer): readonly string[] => jsonOf("Vault", answer, Errors).errors ?? [];

/** Whether a condition of a request did not hold, or what was to be changed is not there. */
function isOutdated(answer: OutboundAnswer): boolean {
  if (answer.status !== 400) return answer.status === 404;
  return errorsOf(answer).some((error) => /check-and-set parameter d(id|oes) not match/.test(error));
}

/** Vault takes patches in this form only (API of KV version 2, "Patch secret"). */
const contentTypeOf = (method: Method) => (method === "PATCH" ? "application/merge-patch+json" : "application/json");

function explained(answer: OutboundAnswer, hint: string | undefined): TargetError {
  const { message, permanent, unchanged, retryAfterMs } = refusalOf("Vault", answer);
  const text = hint === undefined ? message : `Vault answered ${answer.status}: ${hint}`;
  return new TargetError("refused", text, { permanent, unchanged, retryAfterMs });
}

function hintFor({ status }: OutboundAnswer, method: Method, path: readonly string[]): string | undefined {
  const where = path.join("/");
  switch (status) {
    case 400:
      return `it does not take the request to ${method} ${where}`;
    case 403:
      return `the token is not valid, or its policies do not allow it to ${capabilities[method]} at ${where}`;
    case 404:
      return `it has no secrets engine for ${where}; is the mount right, and the namespace?`;
    case 405:
      return method === "PATCH" ? "it is too old for PATCH, which Vault has since 1.10" : undefined;
    default:
      return generalHint(status);
  }
}

/** What the statuses of Vault mean (its API documentation, "HTTP status codes" and "Health"). */
function generalHint(status: number): string | undefined {
  if (status >= 300 && status <= 399)
    return "it leads to another node, and redirects are not followed; give the address of the active node or of a load balancer";
  switch (status) {
    case 412:
      return "the node has not yet all that was written";
    case 429:
      return "it is asked too often";
    case 472:
      return "it is a replica for disaster recovery, which takes no requests";
    case 473:
      return "it is a standby node, which takes no writes";
    case 503:
      return "it is sealed, or down for maintenance";
    default:
      return undefined;
  }
}
