import type { JsonObject } from "@bufbuild/protobuf";
import { z } from "zod";
import { anyObject } from "../settings.ts";
import type { Site } from "./destination.ts";
import { jsonOf } from "./json-answer.ts";
import type { VaultClient } from "./vault-client.ts";
import { checkKvVersion, foreignInVault, type KvField } from "./vault-kv-field.ts";

const Fields = z.object({ data: anyObject });

/**
 * A secret of one field in a secrets engine KV version 1, which can neither hold a mark nor change one field alone: the path
 * is the link's own, noted on our side, and once there is anything else it is left as it is.
 */
export class KvV1Field {
  readonly #vault: VaultClient;
  readonly #place: KvField;
  readonly #site: Site;

  constructor(vault: VaultClient, place: KvField, site: Site) {
    this.#vault = vault;
    this.#place = place;
    this.#site = site;
  }

  async write(value: string): Promise<void> {
    const fields = await this.#read();
    if (fields === undefined) {
      await checkKvVersion(this.#vault, this.#place);
      if (!this.#site.owned) await this.#site.own();
    } else {
      this.#checkOwn(fields);
      if (fields[this.#place.field] === value) return;
    }
    await this.#vault.send("POST", this.#path, { [this.#place.field]: value });
  }

  async remove(): Promise<void> {
    const fields = await this.#read();
    if (fields === undefined) return;
    this.#checkOwn(fields);
    await this.#vault.send("DELETE", this.#path);
  }

  async #read(): Promise<JsonObject | undefined> {
    const answer = await this.#vault.get(this.#path);
    return answer.status === 404 ? undefined : jsonOf("Vault", answer, Fields).data;
  }

  #checkOwn(fields: JsonObject): void {
    const hasOthers = Object.keys(fields).some((name) => name !== this.#place.field);
    if (!this.#site.owned || hasOthers) throw foreignInVault(this.#place);
  }

  get #path(): readonly string[] {
    return [...this.#place.mount, ...this.#place.path];
  }
}
