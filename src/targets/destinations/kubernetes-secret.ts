import { createHash } from "node:crypto";
import type { HttpLibrary, RequestContext, ResponseContext, V1ObjectMeta, V1Secret } from "@kubernetes/client-node";
import type {
  CoreV1ApiRequestFactory,
  CoreV1ApiResponseProcessor,
} from "@kubernetes/client-node/dist/gen/apis/CoreV1Api.js";
import { kubernetesHttpLibrary } from "../../outbound/kubernetes-http-library.ts";
import type { Outbound } from "../../outbound/outbound.ts";
import { notAnswered } from "../http-target.ts";
import { userAgent } from "../means.ts";
import { TargetError } from "../target-error.ts";
import { explainKubernetes, kubernetesName, notUnderstood, reasonOf } from "./kubernetes-errors.ts";

interface KubernetesPlace {
  /** Without a slash at its end. */
  readonly apiServer: string;
  readonly namespace: string;
  readonly name: string;
  /** In PEM; those of this machine if left out. */
  readonly certificateAuthorities: string | undefined;
}

/** What makes requests of calls, sends them, and makes Secrets of answers. */
interface Client {
  readonly requests: CoreV1ApiRequestFactory;
  readonly http: HttpLibrary;
  readonly responses: CoreV1ApiResponseProcessor;
}

/** As it was when it was read. */
export type FoundSecret = V1Secret & { readonly metadata: V1ObjectMeta & { readonly resourceVersion: string } };

/** Of one request. */
const timeoutMs = 10_000;
/** A Secret may hold 1 MiB, which JSON makes longer. */
const mostBytes = 4 * 1024 * 1024;
const [managedBy, holdfast] = ["app.kubernetes.io/managed-by", "holdfast"];

/** The annotation that holds the id of the link that made a data key, whose name may be too long to be a part of it. */
export const markOf = (dataKey: string): string =>
  `holdfast.internal/link-${createHash("sha256").update(dataKey).digest("hex").slice(0, 32)}`;

/**
 * A Secret of that name, whether it is there or not. What changes it answers false when somebody else was faster, and it is
 * to be read again. All methods throw TargetErrors.
 */
export class KubernetesSecret {
  readonly #client: Client;
  readonly #place: KubernetesPlace;
  readonly #signal: AbortSignal;

  private constructor(client: Client, place: KubernetesPlace, signal: AbortSignal) {
    this.#client = client;
    this.#place = place;
    this.#signal = signal;
  }

  /** Loads the classes that are used here of the client, 50 MB; the whole one costs 90. */
  static async open(outbound: Outbound, place: KubernetesPlace, token: string, signal: AbortSignal) {
    const api = await import("@kubernetes/client-node/dist/gen/apis/CoreV1Api.js");
    const sdk = await import("@kubernetes/client-node/dist/gen/http/http.js");
    const { createConfiguration } = await import("@kubernetes/client-node/dist/gen/configuration.js");
    const { ServerConfiguration } = await import("@kubernetes/client-node/dist/gen/servers.js");
    const { certificateAuthorities } = place;
    const http = kubernetesHttpLibrary(sdk, outbound, { timeoutMs, signal, mostBytes, certificateAuthorities });
    const baseServer = new ServerConfiguration(place.apiServer, {});
    const authMethods = { BearerToken: `Bearer ${token}` };
    const requests = new api.CoreV1ApiRequestFactory(createConfiguration({ baseServer, authMethods, httpApi: http }));
    return new KubernetesSecret({ requests, http, responses: new api.CoreV1ApiResponseProcessor() }, place, signal);
  }

  /** Undefined when there is none. */
  async read(): Promise<FoundSecret | undefined> {
    const { requests, responses } = this.#client;
    const request = requests.readNamespacedSecret(this.#place.name, this.#place.namespace);
    const understand = async (response: ResponseContext) =>
      this.#checked((await responses.readNamespacedSecretWithHttpInfo(response)).data);
    return await this.#ask({ verb: "get", request, understand, expected: ["NotFound secrets"] });
  }

  /** Makes it, with nothing but one data key in it, for the link. */
  async create(dataKey: string, encoded: string, linkId: string): Promise<boolean> {
    const { requests, responses } = this.#client;
    const { name, namespace } = this.#place;
    const metadata = { name, labels: { [managedBy]: holdfast }, annotations: { [markOf(dataKey)]: linkId } };
    const body = { apiVersion: "v1", kind: "Secret", type: "Opaque", metadata, data: { [dataKey]: encoded } };
    const request = requests.createNamespacedSecret(namespace, body, undefined, undefined, holdfast);
    const understand = async (response: ResponseContext) =>
      this.#confirmed((await responses.createNamespacedSecretWithHttpInfo(response)).data, dataKey, encoded);
    const made = await this.#ask({ verb: "create", request, understand, expected: ["AlreadyExists secrets"] });
    return made !== undefined;
  }

  /** Sets one data key and the link that it is of, or removes both for null, if it is still as it was read. */
  async setData(there: FoundSecret, dataKey: string, encoded: string | null, linkId: string | null): Promise<boolean> {
    const { requests, responses } = this.#client;
    const { name, namespace } = this.#place;
    const { resourceVersion } = there.metadata;
    const body = {
      metadata: { resourceVersion, annotations: { [markOf(dataKey)]: linkId } },
      data: { [dataKey]: encoded },
    };
    const request = requests
      .patchNamespacedSecret(name, namespace, body, undefined, undefined, holdfast)
      .then(asMergePatch);
    const understand = async (response: ResponseContext) =>
      this.#confirmed((await responses.patchNamespacedSecretWithHttpInfo(response)).data, dataKey, encoded);
    return (await this.#ask({ verb: "patch", request, understand, expected: lost })) !== undefined;
  }

  /** Removes all of it, if it is still as it was read. */
  async remove({ metadata: { resourceVersion } }: FoundSecret): Promise<boolean> {
    const { requests, responses } = this.#client;
    const { name, namespace } = this.#place;
    const [none, body] = [undefined, { preconditions: { resourceVersion } }];
    const request = requests.deleteNamespacedSecret(name, namespace, none, none, none, none, none, none, body);
    const understand = async (response: ResponseContext) => {
      const { kind } = (await responses.deleteNamespacedSecretWithHttpInfo(response)).data;
      // The Secret itself while something else has to end first.
      if (kind !== "Status" && kind !== "Secret") throw notUnderstood();
      return kind;
    };
    return (await this.#ask({ verb: "delete", request, understand, expected: lost })) !== undefined;
  }

  /** Undefined where the reason of a refusal is one of the expected. */
  async #ask<Answer>({ verb, request, understand, expected }: Question<Answer>): Promise<Answer | undefined> {
    try {
      const made = await request;
      made.setHeaderParam("User-Agent", userAgent);
      const answered = this.#client.http.send(made).toPromise();
      return await understand(await answered.catch(notAnswered(kubernetesName)));
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof TargetError) throw error;
      if (expected.includes(reasonOf(error))) return undefined;
      throw explainKubernetes(error, verb);
    }
  }

  /** Whoever stands between may answer anything. */
  #checked(answer: V1Secret): FoundSecret {
    const { name, namespace, resourceVersion } = answer.metadata ?? {};
    const isThis = answer.kind === "Secret" && name === this.#place.name && namespace === this.#place.namespace;
    if (!isThis || typeof resourceVersion !== "string") throw notUnderstood();
    return answer as FoundSecret;
  }

  #confirmed(answer: V1Secret, dataKey: string, encoded: string | null): FoundSecret {
    const secret = this.#checked(answer);
    if ((secret.data?.[dataKey] ?? null) === encoded) return secret;
    throw new TargetError("refused", "the cluster keeps something else than what was written");
  }
}

interface Question<Answer> {
  readonly verb: string;
  readonly request: Promise<RequestContext>;
  readonly understand: (response: ResponseContext) => Promise<Answer>;
  readonly expected: readonly string[];
}

/** It was changed since, or removed. */
const lost = ["Conflict secrets", "NotFound secrets"];

/** Whether it was made by a link, and not only written to. */
export const isMadeHere = ({ metadata }: V1Secret): boolean => metadata?.labels?.[managedBy] === holdfast;

/** The client would have it as a JSON patch. */
function asMergePatch(request: RequestContext): RequestContext {
  request.setHeaderParam("Content-Type", "application/merge-patch+json");
  return request;
}
