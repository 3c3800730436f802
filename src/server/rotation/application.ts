import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { invalidField } from "../errors.ts";
import type { ConfigChange } from "./config-change.ts";
import type { ConfigRow } from "./config-row.ts";
import { addressOf, isAppliedByNobody, type Provider, providerNamed, targetOf } from "./providers.ts";

/** How the values of a secret are made, and brought to where they are used. */
export interface Application {
  readonly provider: string;
  readonly settings: JsonObject;
  /** Undefined for those that are kept. */
  readonly credentials: JsonObject | null | undefined;
  /** Whose active gateway applies the value; none where the server does. */
  readonly gatewayEnvironment: string | null;
}

/** What a change makes of a configuration. Throws VALIDATION_ERROR for what does not go together. */
export function applicationAfter(before: ConfigRow, change: ConfigChange): Application {
  const name = change.provider ?? before.provider;
  const provider = providerNamed(name);
  const isOther = name !== before.provider;
  const given = change.settings ?? (isOther ? {} : undefined);
  const settings = given === undefined ? before.settings : provider.settings(given);
  const after = {
    provider: name,
    settings,
    credentials: credentialsAfter(before, change, provider, settings, isOther),
    gatewayEnvironment: environmentAfter(before, change, provider),
  };
  if (differs(before, after)) provider.checkTogether(settings, hasCredentials(before, after));
  return after;
}

const hasCredentials = (before: ConfigRow, { credentials }: Application) =>
  credentials === undefined ? before.credentials !== null : credentials !== null;

/** Whether anything differs from before. */
export function differs(before: ConfigRow, after: Application): boolean {
  const { credentials } = after;
  if (hasOtherSettings(before, after)) return true;
  return credentials === null ? before.credentials !== null : credentials !== undefined;
}

/** Whether values are made or applied differently. */
export const hasOtherSettings = (before: ConfigRow, { provider, settings, gatewayEnvironment }: Application): boolean =>
  provider !== before.provider ||
  gatewayEnvironment !== before.gatewayEnvironment ||
  !isDeepStrictEqual(settings, before.settings);

/** Whether it is another kind of target, or none any more; whoever reaches the same kind of target makes no difference. */
export const isOtherDriver = (before: ConfigRow, { provider, settings }: Application): boolean =>
  isAppliedByNobody(provider) !== isAppliedByNobody(before.provider) ||
  targetOf(provider, settings).driverName !== targetOf(before.provider, before.settings).driverName;

/**
 * Those of another provider or driver are never given to the next one, nor sent to another host than they were given for:
 * whoever may change a configuration does not learn them.
 */
function credentialsAfter(
  before: ConfigRow,
  { credentials }: ConfigChange,
  provider: Provider,
  settings: JsonObject,
  isOther: boolean,
): JsonObject | null | undefined {
  if (credentials === undefined) {
    if (isOther || settings["driver"] !== before.settings["driver"]) return null;
    const isMoved = addressOf(before.provider, settings) !== addressOf(before.provider, before.settings);
    if (before.credentials !== null && isMoved)
      throw invalidField("credentials", "are to be given anew for another host");
    return undefined;
  }
  if (credentials === null || Object.keys(credentials).length === 0) return null;
  return provider.credentials(credentials, settings);
}

function environmentAfter(before: ConfigRow, { gatewayEnvironment: given }: ConfigChange, provider: Provider) {
  if (provider.appliedBy !== "gateway") {
    if (given != null) throw invalidField("gateway_environment", "is only for the provider gateway");
    return null;
  }
  const environment = (given === undefined ? before.gatewayEnvironment : given) ?? before.environment;
  if (environment === null) throw invalidField("gateway_environment", "is required: the secret has no environment");
  return environment;
}
