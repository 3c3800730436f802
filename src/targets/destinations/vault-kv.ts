import { z } from "zod";
import type { Means } from "../means.ts";
import { certificates, integer, orElse } from "../settings.ts";
import { baseUrl } from "./base-url.ts";
import type { Destination, Entry, Place, Site, Writer } from "./destination.ts";
import { VaultClient } from "./vault-client.ts";
import type { KvField } from "./vault-kv-field.ts";
import { VaultMark } from "./vault-kv-mark.ts";
import { KvV1Field } from "./vault-kv-v1.ts";
import { KvV2Field } from "./vault-kv-v2.ts";

/** Names with slashes between them, which may be written with more slashes around them. */
const names = z
  .string()
  .max(512)
  .transform((text) => text.replace(/^\/+|\/+$/g, ""))
  .refine(
    (text) =>
      text.split("/").every((name) => /^[^\p{C}\p{Z}]([^\p{C}]*[^\p{C}\p{Z}])?$/u.test(name) && !/^\.+$/.test(name)),
    "must be names with slashes between them",
  );

const config = z.strictObject({
  address: baseUrl,
  path: names,
  mount: orElse(names, "secret"),
  // Vault takes keys of custom metadata of at most 128 bytes, of which we need a few for the mark.
  field: orElse(z.string().regex(/^[\x21-\x7e]{1,100}$/, "must be 1 to 100 visible ASCII characters"), "value"),
  namespace: names.refine((text) => /^[\x21-\x7e]*$/.test(text), "must be visible ASCII characters").exactOptional(),
  kv_version: orElse(integer(1, 2), 2),
  ca_certificate_pem: certificates.exactOptional(),
});

const visibleAscii = z.string().regex(/^[\x21-\x7e]{1,4096}$/, "must be visible ASCII characters");

const credentials = z.strictObject({
  token: visibleAscii.exactOptional(),
  role_id: visibleAscii.exactOptional(),
  secret_id: visibleAscii.exactOptional(),
});

type Config = z.output<typeof config>;
type Credentials = z.output<typeof credentials>;

/** One field of a secret in a secrets engine KV of HashiCorp Vault or OpenBao. */
export const vaultKv: Destination = {
  config: () => config,
  credentials,
  faults: faultsOf,
  place: (checked) => placeOf(checked as Config),
  open: (means) => new VaultKvWriter(means),
};

class VaultKvWriter implements Writer {
  readonly #means: Means;

  constructor(means: Means) {
    this.#means = means;
  }

  async write({ linkId, value }: Entry, site: Site, signal: AbortSignal): Promise<void> {
    await this.#useField(linkId, site, signal, async (field) => await field.write(value));
  }

  async remove({ linkId }: Pick<Entry, "linkId">, site: Site, signal: AbortSignal): Promise<void> {
    await this.#useField(linkId, site, signal, async (field) => await field.remove());
  }

  async #useField(
    linkId: string,
    site: Site,
    signal: AbortSignal,
    work: (field: KvV1Field | KvV2Field) => Promise<void>,
  ): Promise<void> {
    const server = site.config as Config;
    const own = site.credentials as Credentials;
    const place = fieldOf(server);
    const mark = new VaultMark(linkId, own.token ?? own.secret_id ?? "");
    await VaultClient.use({ means: this.#means, server, credentials: own, signal }, async (vault) => {
      await work(place.kvVersion === 1 ? new KvV1Field(vault, place, site) : new KvV2Field(vault, place, mark));
    });
  }
}

const fieldOf = ({ mount, path, field, kv_version: kvVersion }: Config): KvField => ({
  mount: mount.split("/"),
  path: path.split("/"),
  field,
  kvVersion,
});

function placeOf({ address, namespace = "", mount, path, field }: Config): Place {
  return { origin: new URL(address).origin, name: JSON.stringify([address, namespace, mount, path, field]) };
}

function faultsOf({ token, role_id: roleId, secret_id: secretId }: Credentials): { field: string; message: string }[] {
  if (token !== undefined) {
    const isAlone = roleId === undefined && secretId === undefined;
    return isAlone ? [] : [{ field: "token", message: "must not be given together with role_id and secret_id" }];
  }
  if (roleId === undefined && secretId === undefined)
    return [{ field: "token", message: "is required, or else role_id and secret_id" }];
  return Object.entries({ role_id: roleId, secret_id: secretId })
    .filter(([, value]) => value === undefined)
    .map(([field]) => ({ field, message: "is required" }));
}
