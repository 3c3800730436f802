import { isDeepStrictEqual } from "node:util";
import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { z } from "zod";
import * as pb from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { anyObject } from "../../targets/settings.ts";
import { invalidField } from "../errors.ts";
import { checked, checkSize } from "../wire/free-json.ts";
import { mentions } from "../wire/update-mask.ts";

const mostSettingsBytes = 64 * 1024;
const mostCredentialsBytes = 32 * 1024;
const mostIntervalDays = 3650;

/** What an update says of a configuration. What it does not mention is undefined, and null takes something away. */
export interface ConfigChange {
  readonly enabled: boolean | undefined;
  readonly intervalDays: number | undefined;
  readonly provider: string | undefined;
  readonly settings: JsonObject | undefined;
  readonly credentials: JsonObject | null | undefined;
  readonly gatewayEnvironment: string | null | undefined;
  readonly gracePeriodDays: number | undefined;
}

/** What a request mentions (gaps 3.1). Throws VALIDATION_ERROR for what would be wrong with any configuration. */
export function readChange(request: pb.UpdateRotationConfigRequest): ConfigChange {
  const mentioned = mentions(pb.UpdateRotationConfigRequestSchema, request);
  const provider = mentioned("provider") ? readProvider(jsonOf(request.provider)) : undefined;
  const settings = mentioned("provider_settings") ? (request.providerSettings ?? {}) : undefined;
  const credentials = mentioned("credentials") ? (request.credentials ?? null) : undefined;
  const change = {
    enabled: mentioned("enabled") ? request.enabled : undefined,
    intervalDays: mentioned("interval_days") ? readInterval(jsonOf(request.intervalDays)) : undefined,
    provider: provider?.type,
    settings: oneOf("provider_settings", settings, provider?.settings ?? undefined),
    credentials: oneOf("credentials", credentials, provider?.credentials),
    gatewayEnvironment: mentioned("gateway_environment") ? (request.gatewayEnvironment ?? null) : undefined,
    gracePeriodDays: mentioned("grace_period_days") ? request.gracePeriodDays : undefined,
  };
  if (change.settings !== undefined) checkSize(change.settings, "provider_settings", mostSettingsBytes);
  if (change.credentials != null) checkSize(change.credentials, "credentials", mostCredentialsBytes);
  return change;
}

/** The fields of type google.protobuf.Value are what the contract says that they are; null is absent (G-0.3). */
const jsonOf = (value: Value | undefined): JsonValue => (value === undefined ? null : toJson(ValueSchema, value));

const GivenProvider = z.object({ type: z.string(), settings: anyObject.nullish(), credentials: anyObject.nullish() });

/** A name, or an object that holds what goes with it as well. */
function readProvider(given: JsonValue): Partial<z.output<typeof GivenProvider>> | undefined {
  if (given === null) return undefined;
  return typeof given === "string" ? { type: given } : checked(GivenProvider, given, "provider");
}

/** A number of days, or a text as in "30d". */
function readInterval(given: JsonValue): number | undefined {
  if (given === null) return undefined;
  const days = typeof given === "string" ? Number(/^(\d{1,9})d?$/.exec(given)?.[1]) : given;
  if (typeof days === "number" && Number.isInteger(days) && days >= 1 && days <= mostIntervalDays) return days;
  throw invalidField("interval_days", `must be from 1 to ${mostIntervalDays} days, as in 30 or "30d"`);
}

/** What may be said in two places of a request is to be the same in both. */
function oneOf<Given>(field: string, one: Given | undefined, other: Given | undefined): Given | undefined {
  if (one === undefined || other === undefined) return one === undefined ? other : one;
  if (!isDeepStrictEqual(one, other)) throw invalidField(field, "is given twice, differently");
  return one;
}
