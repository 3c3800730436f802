import { randomUUIDv7 } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { run } from "../db/database.ts";
import { duplicate, violates, wrongState } from "../errors.ts";
import type { Seal } from "../seal/seal.ts";
import { dataKeyOf } from "../secrets/data-key.ts";
import type { Secret } from "../secrets/secret.ts";
import type { Call } from "../wire/call.ts";
import type { LinkChange } from "./link-change.ts";
import { type LinkRow, linkColumns } from "./link-record.ts";
import type { Whereabouts } from "./link-settings.ts";
import { credentialsPlace } from "./reach.ts";
import { requeue, unqueue, wakeWorkers } from "./sync-queue.ts";

/** A link to be. */
interface LinkDraft extends Whereabouts {
  readonly integration: string;
  readonly name: string;
  readonly environment: string | null;
  readonly credentials: JsonObject | null;
  readonly syncEnabled: boolean;
}

/** Of one secret: each of them is told of each version. */
const mostLinks = 100;

/** Stores a new link of a locked secret. Throws ALREADY_EXISTS when the secret is linked to that place, and FAILED_PRECONDITION when it has as many as it may. */
export async function storeLink(call: Call, seal: Seal, secret: Secret, draft: LinkDraft): Promise<LinkRow> {
  const owner = [secret.id, secret.organizationId];
  const links = await run(call.em, "select 1 from secret_link where secret_id = $1 and organization_id = $2", owner);
  if (links.length >= mostLinks) throw wrongState(`a secret has at most ${mostLinks} links`);
  const id = randomUUIDv7();
  const [row] = await run<LinkRow>(
    call.em,
    `insert into secret_link as l (id, organization_id, secret_id, integration, name, environment, config, place, host,
       credentials, sync_enabled, status, due_at, created_by, created_at, updated_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, case when $11 then 'pending' else 'disabled' end,
       case when $11 then now() end, $12, $13, $13) returning ${linkColumns}`,
    [
      id,
      secret.organizationId,
      secret.id,
      draft.integration,
      draft.name,
      draft.environment,
      JSON.stringify(draft.config),
      draft.place,
      draft.host,
      await sealed(call, seal, secret, id, draft.credentials),
      draft.syncEnabled,
      call.caller.id,
      call.now,
    ],
  ).catch(placeTaken);
  if (draft.syncEnabled) await wakeWorkers(call.em);
  return row as LinkRow;
}

/** Changes a link of a locked secret. Throws ALREADY_EXISTS when the secret is linked to that place by another one. */
export async function changeLink(
  call: Call,
  seal: Seal,
  secret: Secret,
  id: string,
  change: LinkChange,
): Promise<void> {
  const { organizationId } = secret;
  if (change.isMoved) await beginAtPlace(call, organizationId, id);
  await run(
    call.em,
    `update secret_link set name = $3, environment = $4, config = $5, place = $6, host = $7,
       credentials = case when $8 then credentials else $9 end, sync_enabled = $10, updated_at = $11
     where id = $1 and organization_id = $2`,
    [
      id,
      organizationId,
      change.name,
      change.environment,
      JSON.stringify(change.config),
      change.place,
      change.host,
      change.credentials === undefined,
      await sealed(call, seal, secret, id, change.credentials ?? null),
      change.syncEnabled,
      call.now,
    ],
  ).catch(placeTaken);
  if (!change.syncEnabled) await unqueue(call.em, organizationId, id);
  else if (change.isNew) await requeue(call.em, secret, { linkId: id });
}

/**
 * Nothing is known of another place yet. An attempt at the one before may still be under way, and would be in the way of
 * another one if the link came back there: until its time is over the claim stays, of which nothing is heard any more.
 */
async function beginAtPlace(call: Call, organizationId: string, id: string): Promise<void> {
  await run(
    call.em,
    `update secret_link set status = 'pending', owned = false, version = null, last_synced = null, last_error_code = null,
       last_error_message = null, last_error_at = null, claimed_version = null,
       claim_id = case when claim_id is not null then gen_random_uuid() end
     where id = $1 and organization_id = $2`,
    [id, organizationId],
  );
}

async function sealed(call: Call, seal: Seal, secret: Secret, id: string, credentials: JsonObject | null) {
  if (credentials === null) return null;
  const key = await dataKeyOf(call, seal, secret);
  return seal.seal(key, credentialsPlace(secret.organizationId, id), Buffer.from(JSON.stringify(credentials)));
}

function placeTaken(error: unknown): never {
  throw violates(error, "secret_link_place_key")
    ? duplicate("config", "leads where another link of the secret does")
    : error;
}
