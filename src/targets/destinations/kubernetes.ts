import type { V1Secret } from "@kubernetes/client-node";
import { z } from "zod";
import type { Means } from "../means.ts";
import { certificates, orElse } from "../settings.ts";
import { TargetError } from "../target-error.ts";
import { baseUrl } from "./base-url.ts";
import type { Destination, Entry, Place, Site, Writer } from "./destination.ts";
import { isMadeHere, KubernetesSecret, markOf } from "./kubernetes-secret.ts";

/** Of a namespace (RFC 1123, a label). */
const labelName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
/** Of a Secret (RFC 1123, a subdomain). */
const subdomainName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
/** As Kubernetes checks it; objects of JavaScript have a __proto__ of their own. */
const dataKeyName = /^(?!\.$|\.\.|__proto__$)[-._a-zA-Z0-9]{1,253}$/;

const configFor = (key: string) =>
  z.strictObject({
    api_server: baseUrl,
    namespace: z.string().regex(labelName, "must be the name of a namespace: small letters, digits and -"),
    secret_name: z.string().regex(subdomainName, "must be the name of a Secret: small letters, digits, - and ."),
    data_key: orElse(
      z
        .string()
        .regex(dataKeyName, "must be 1 to 253 letters, digits, -, _ and ., which the key of the secret may not be"),
      key,
    ),
    ca_certificate_pem: certificates.exactOptional(),
  });

const credentials = z.strictObject({
  token: z.string().regex(/^[\x21-\x7e]{1,8192}$/, "must be visible ASCII characters"),
});

type Config = z.output<ReturnType<typeof configFor>>;
type Credentials = z.output<typeof credentials>;

/** How often the work starts anew because somebody else changed the Secret meanwhile. */
const mostTries = 3;

/**
 * One data key of a Secret of Kubernetes. An annotation for each data key says which link made it; everything else in the
 * Secret stays as it is.
 */
export const kubernetes: Destination = {
  config: configFor,
  credentials,
  faults: (given) => (Object.hasOwn(given, "token") ? [] : [{ field: "token", message: "is required" }]),
  place: (checked) => placeOf(checked as Config),
  open: (means) => new KubernetesWriter(means),
};

class KubernetesWriter implements Writer {
  readonly #means: Means;

  constructor(means: Means) {
    this.#means = means;
  }

  async write(entry: Entry, site: Site, signal: AbortSignal): Promise<void> {
    const { data_key: dataKey } = site.config as Config;
    const encoded = Buffer.from(entry.value).toString("base64");
    await this.#untilDone(site, signal, async (secret) => {
      const there = await secret.read();
      if (there === undefined) return await secret.create(dataKey, encoded, entry.linkId);
      if (!isFree(there, dataKey)) checkOwn(there, dataKey, entry);
      if (isOwn(there, dataKey, entry) && there.data?.[dataKey] === encoded) return true;
      checkMutable(there);
      return await secret.setData(there, dataKey, encoded, entry.linkId);
    });
  }

  async remove(entry: Pick<Entry, "linkId">, site: Site, signal: AbortSignal): Promise<void> {
    const { data_key: dataKey } = site.config as Config;
    await this.#untilDone(site, signal, async (secret) => {
      const there = await secret.read();
      if (there === undefined || isFree(there, dataKey)) return true;
      checkOwn(there, dataKey, entry);
      if (isMadeHere(there) && Object.keys(there.data ?? {}).length === 1) return await secret.remove(there);
      checkMutable(there);
      return await secret.setData(there, dataKey, null, null);
    });
  }

  async #untilDone(site: Site, signal: AbortSignal, attempt: (secret: KubernetesSecret) => Promise<boolean>) {
    const { api_server: apiServer, namespace, secret_name: name, ...rest } = site.config as Config;
    const place = { apiServer, namespace, name, certificateAuthorities: rest.ca_certificate_pem };
    const { token } = site.credentials as Credentials;
    const secret = await KubernetesSecret.open(this.#means.outbound, place, token, signal);
    for (let tries = 0; tries < mostTries; tries++) if (await attempt(secret)) return;
    throw new TargetError("refused", "others keep changing the Secret in Kubernetes");
  }
}

const isFree = ({ data = {} }: V1Secret, dataKey: string): boolean => !Object.hasOwn(data, dataKey);

const isOwn = ({ metadata }: V1Secret, dataKey: string, { linkId }: Pick<Entry, "linkId">): boolean =>
  metadata?.annotations?.[markOf(dataKey)] === linkId;

function checkOwn(there: V1Secret, dataKey: string, entry: Pick<Entry, "linkId">): void {
  if (isOwn(there, dataKey, entry)) return;
  const message = `the Secret has a data key ${dataKey} already that this link did not make; it is left as it is`;
  throw new TargetError("foreign", message, { permanent: true, unchanged: true });
}

function checkMutable({ immutable }: V1Secret): void {
  if (immutable !== true) return;
  throw new TargetError("refused", "the Secret is immutable: Kubernetes lets nobody change its data", {
    permanent: true,
    unchanged: true,
  });
}

function placeOf({ api_server: apiServer, namespace, secret_name: name, data_key: dataKey }: Config): Place {
  return { origin: new URL(apiServer).origin, name: JSON.stringify([apiServer, namespace, name, dataKey]) };
}
