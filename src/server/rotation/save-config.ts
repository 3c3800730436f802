import { run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import { dataKeyOf } from "../secrets/data-key.ts";
import type { Secret } from "../secrets/secret.ts";
import type { Call } from "../wire/call.ts";
import { type Application, differs } from "./application.ts";
import type { ConfigRow } from "./config-row.ts";
import { credentialsPlace } from "./rotation-places.ts";

/** Keeps what has changed in the configuration of a locked secret; nothing, when nothing has. */
export async function saveConfig(
  call: Call,
  seal: Seal,
  secret: Secret,
  before: ConfigRow,
  after: Application,
): Promise<void> {
  const isOther = differs(before, after);
  const { rotationEnabled, rotationIntervalDays } = secret;
  if (!isOther && rotationEnabled === before.enabled && rotationIntervalDays === before.intervalDays) return;
  const { provider, settings, credentials, gatewayEnvironment } = after;
  await run(
    call.em,
    `insert into rotation_config (id, organization_id, secret_id, provider, provider_settings, gateway_environment, credentials)
     values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (id) do update set provider = excluded.provider, provider_settings = excluded.provider_settings,
       gateway_environment = excluded.gateway_environment, updated_at = now(),
       credentials = case when $8 then rotation_config.credentials else excluded.credentials end`,
    [
      before.id,
      before.organizationId,
      before.secretId,
      provider,
      JSON.stringify(settings),
      gatewayEnvironment,
      credentials ? await sealed(call, seal, before, credentials) : null,
      credentials === undefined,
    ],
  );
  // What standby gateways found out is not true of this one any more.
  if (isOther) await run(call.em, "delete from gateway_readiness where config_id = $1", [before.id]);
}

async function sealed(
  call: Call,
  seal: Seal,
  { organizationId, secretId }: ConfigRow,
  credentials: object,
): Promise<Buffer> {
  const key = await dataKeyOf(call, seal, { organizationId, id: secretId });
  return seal.seal(key, credentialsPlace({ organizationId, secretId }), Buffer.from(JSON.stringify(credentials)));
}
