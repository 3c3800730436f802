import type { KeyObject } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Destination, Site, Writer } from "../../targets/destinations/destination.ts";
import { destinationNamed } from "../../targets/destinations/destinations.ts";
import { TargetError } from "../../targets/target-error.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { violates } from "../errors.ts";
import { asSystem } from "../jobs.ts";
import type { Place, Seal } from "../seal/seal.ts";
import { valuePlace } from "../secrets/store-secret.ts";
import { type ClaimedLink, claimSeconds, type DueLink } from "./claims.ts";

/** Where the credentials of a link are sealed to: JSON, under the secret's key. */
export const credentialsPlace = (organizationId: string, linkId: string): Place => ({
  organizationId,
  kind: "link.credentials",
  recordId: linkId,
  version: 0,
});

/** Brings values to the places of claimed links. Both methods open what is sealed just before, and keep none of it. */
export class Reach {
  readonly #core: Pick<Core, "db" | "seal" | "outbound">;
  readonly #writers = new Map<Destination, Writer>();

  constructor(core: Pick<Core, "db" | "seal" | "outbound">) {
    this.#core = core;
  }

  /** Resolves when the destination has confirmed the version. Throws a TargetError, or SealBroken. */
  async write(link: DueLink, signal: AbortSignal): Promise<void> {
    const { organizationId, secretId, version, sealed } = link;
    const writer = this.#writerOf(link);
    const key = await this.#keyOf(link);
    if (sealed === null) throw new TargetError("invalid", "the value is lost");
    const value = this.#core.seal.open(key, valuePlace(organizationId, secretId, version), sealed).toString();
    await writer.write({ ...entryOf(link), version, value }, this.#siteOf(link, key), signal);
  }

  /** Resolves when the destination has no entry of the link. Throws as `write` does. */
  async remove(link: ClaimedLink, signal: AbortSignal): Promise<void> {
    const writer = this.#writerOf(link);
    const key = await this.#keyOf(link);
    await writer.remove(entryOf(link), this.#siteOf(link, key), signal);
  }

  #writerOf({ integration }: ClaimedLink): Writer {
    const destination = destinationNamed(integration);
    if (destination === undefined) throw new TargetError("invalid", `there is no integration ${integration}`);
    const writer = this.#writers.get(destination) ?? destination.open(this.#core);
    this.#writers.set(destination, writer);
    return writer;
  }

  async #keyOf({ organizationId, secretId, wrapped }: ClaimedLink): Promise<KeyObject> {
    if (wrapped === null) throw new TargetError("invalid", "the key of the secret is lost");
    return this.#core.seal.dataKey(this.#core.db, organizationId, secretId, wrapped);
  }

  #siteOf(link: ClaimedLink, key: KeyObject): Site {
    const credentials = openCredentials(this.#core.seal, key, link);
    return { config: link.config, credentials, owned: link.owned, own: () => this.#own(link) };
  }

  async #own({ id, organizationId, claimId }: ClaimedLink): Promise<void> {
    const owned = await asSystem(this.#core.db, async (em) => {
      await run(em, disown, [id, organizationId, claimSeconds]);
      return run(em, own, [id, organizationId, claimId]);
    }).catch(ownedByOther);
    if (owned.length === 0) throw new TargetError("timed_out", "the link was changed meanwhile", { unchanged: true });
  }
}

/**
 * There is no entry: what another link had made there is gone, unless that one has made it since this one looked. It has
 * looked after it was claimed, $3 seconds before the claim ends.
 */
const disown = `update secret_link o set owned = false from secret_link l
  where l.id = $1 and l.organization_id = $2 and o.organization_id = $2 and o.integration = l.integration
    and o.place = l.place and o.owned and o.id <> l.id and o.claim_id is null
    and o.status in ('synced', 'failed', 'disabled')
    and greatest(o.last_synced, o.last_error_at) < l.due_at - make_interval(secs => $3)`;

const own = "update secret_link set owned = true where id = $1 and organization_id = $2 and claim_id = $3 returning id";

function ownedByOther(error: unknown): never {
  if (!violates(error, "secret_link_owner_key")) throw error;
  throw new TargetError("foreign", "another link has just made that entry, or is about to", { unchanged: true });
}

const entryOf = ({ id, secretId, key, environment }: ClaimedLink) => ({ linkId: id, secretId, key, environment });

function openCredentials(seal: Seal, key: KeyObject, { id, organizationId, credentials }: ClaimedLink): JsonObject {
  if (credentials === null) return {};
  return JSON.parse(seal.open(key, credentialsPlace(organizationId, id), credentials).toString()) as JsonObject;
}
