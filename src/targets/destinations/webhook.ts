import type { JsonObject } from "@bufbuild/protobuf";
import { z } from "zod";
import type { Means } from "../means.ts";
import { headers, plainUrl } from "../settings.ts";
import { sendWebhook, webhookCredentials } from "../webhook-request.ts";
import type { Destination, Entry, Site, Writer } from "./destination.ts";

const config = z.strictObject({ url: plainUrl, headers });

type Config = z.output<typeof config>;
type Credentials = z.output<typeof webhookCredentials>;

/** As long as an attempt may take, which is one request. */
const timeoutMs = 30_000;

/** Sends each version to a URL; any status from 200 to 299 confirms it. */
export const webhook: Destination = {
  config: () => config,
  credentials: webhookCredentials,
  place(settings: JsonObject) {
    const { origin, href } = new URL((settings as Config).url);
    return { origin, name: href };
  },
  open: (means) => new WebhookWriter(means),
};

class WebhookWriter implements Writer {
  readonly #means: Means;

  constructor(means: Means) {
    this.#means = means;
  }

  async write(entry: Entry, site: Site, signal: AbortSignal): Promise<void> {
    const { version, value } = entry;
    await this.#send({ event: "secret.sync", ...aboutOf(entry), version, value }, site, signal);
  }

  async remove(entry: Omit<Entry, "value" | "version">, site: Site, signal: AbortSignal): Promise<void> {
    await this.#send({ event: "secret.purge", ...aboutOf(entry) }, site, signal);
  }

  async #send(event: object, site: Site, signal: AbortSignal): Promise<void> {
    const { url, headers: named } = site.config as Config;
    const credentials = site.credentials as Partial<Credentials>;
    await sendWebhook(this.#means, { url, headers: named, credentials, event, timeoutMs, signal });
  }
}

const aboutOf = ({ secretId, key, environment, linkId }: Omit<Entry, "value" | "version">) => ({
  secret_id: secretId,
  key,
  environment,
  link_id: linkId,
});
