import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { invalidField } from "../errors.ts";
import type { ConfigChange } from "./config-change.ts";
import type { ConfigRow } from "./config-row.ts";
import { type Provider, providerNamed } from "./providers.ts";

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
  return {
    provider: name,
    settings,
    credentials: credentialsAfter(before, change, provider, settings, isOther),
    gatewayEnvironment: environmentAfter(before, change, provider),
  };
}

/** Whether anything differs from before. */
export function differs(before: ConfigRow, after: Application): boolean {
  const { provider, settings, credentials, gatewayEnvironment } = after;
  if (provider !== before.provider || gatewayEnvironment !== before.gatewayEnvironment) return true;
  if (!isDeepStrictEqual(settings, before.settings)) return true;
  return credentials === null ? before.credentials !== null : credentials !== undefined;
}

/** Those of another provider or driver are never given to the next one. */
function credentialsAfter(
  before: ConfigRow,
  { credentials }: ConfigChange,
  provider: Provider,
  settings: JsonObject,
  isOther: boolean,
): JsonObject | null | undefined {
  if (credentials === undefined) return isOther || settings["driver"] !== before.settings["driver"] ? null : undefined;
  if (credentials === null || Object.keys(credentials).length === 0) return null;
  return provider.credentials(credentials, settings);
}

function environmentAfter(before: ConfigRow, { gatewayEnvironment: given }: ConfigChange, provider: Provider) {
  if (provider.appliedBy === "server") {
    if (given != null) throw invalidField("gateway_environment", "is only for the provider gateway");
    return null;
  }
  const environment = (given === undefined ? before.gatewayEnvironment : given) ?? before.environment;
  if (environment === null) throw invalidField("gateway_environment", "is required: the secret has no environment");
  return environment;
}
