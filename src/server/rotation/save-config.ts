import { run } from "../db/database.ts";
import type { Seal } from "../seal/seal.ts";
import { dataKeyOf } from "../secrets/data-key.ts";
import type { Secret } from "../secrets/secret.ts";
import type { Call } from "../wire/call.ts";
import { type Application, differs, hasOtherSettings, isOtherDriver } from "./application.ts";
import { afterOtherDriver, afterOtherSettings } from "./candidates.ts";
import type { ConfigRow } from "./config-row.ts";
import { reviseCandidates } from "./kept-candidates.ts";
import { credentialsPlace } from "./rotation-places.ts";

/** Keeps what has changed in the configuration of a locked secret; nothing, when nothing has. */
export async function saveConfig(
  call: Call,
  seal: Seal,
  secret: Secret,
  before: ConfigRow,
  after: Application,
  gracePeriodDays = before.gracePeriodDays,
): Promise<void> {
  const isOther = differs(before, after);
  const { rotationEnabled, rotationIntervalDays } = secret;
  const isScheduledOtherwise = rotationEnabled !== before.enabled || rotationIntervalDays !== before.intervalDays;
  if (!isOther && !isScheduledOtherwise && gracePeriodDays === before.gracePeriodDays) return;
  const owner = { ...before, configId: before.id };
  if (isOtherDriver(before, after)) await reviseCandidates(call, seal, owner, afterOtherDriver);
  else if (hasOtherSettings(before, after)) await reviseCandidates(call, seal, owner, afterOtherSettings);
  const { provider, settings, credentials, gatewayEnvironment } = after;
  await run(
    call.em,
    `insert into rotation_config (id, organization_id, secret_id, provider, provider_settings, gateway_environment,
       credentials, grace_period_days)
     values ($1, $2, $3, $4, $5, $6, $7, $9)
     on conflict (id) do update set provider = excluded.provider, provider_settings = excluded.provider_settings,
       gateway_environment = excluded.gateway_environment, grace_period_days = excluded.grace_period_days,
       updated_at = now(), credentials = case when $8 then rotation_config.credentials else excluded.credentials end`,
    [
      before.id,
      before.organizationId,
      before.secretId,
      provider,
      JSON.stringify(settings),
      gatewayEnvironment,
      credentials ? await sealed(call, seal, before, credentials) : null,
      credentials === undefined,
      gracePeriodDays,
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
