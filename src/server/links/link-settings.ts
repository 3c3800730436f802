import { createHash } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Destination } from "../../targets/destinations/destination.ts";
import { destinationNames } from "../../targets/destinations/destination-names.ts";
import { destinationNamed } from "../../targets/destinations/destinations.ts";
import { withoutNulls } from "../../targets/settings.ts";
import { invalid, invalidField } from "../errors.ts";
import { checked, checkSize } from "../wire/free-json.ts";

const mostConfigBytes = 64 * 1024;
const mostCredentialsBytes = 32 * 1024;

/** Where a link leads. */
export interface Whereabouts {
  /** With the defaults of the integration. */
  readonly config: JsonObject;
  /** Digest of what tells the place from all others. */
  readonly place: Buffer;
  /** Few are written to at one host at a time. */
  readonly host: string;
  /** Whom credentials are sent to. */
  readonly origin: string;
}

/** Throws VALIDATION_ERROR naming the integrations that there are. */
export function destinationOf(integration: string): Destination {
  const destination = destinationNamed(integration);
  if (destination !== undefined) return destination;
  throw invalidField("integration", `must be one of ${destinationNames.join(", ")}`);
}

/** What a configuration means for a secret of that name. Throws VALIDATION_ERROR naming the faults. */
export function checkConfig(destination: Destination, key: string, given: JsonObject): Whereabouts {
  checkSize(given, "config", mostConfigBytes);
  const config = checked(withoutNulls(destination.config(key)), given, "config");
  const { origin, name } = destination.place(config);
  return { config, origin, host: new URL(origin).host, place: createHash("sha256").update(name).digest() };
}

/** Credentials as they are kept; null when there are none. Throws VALIDATION_ERROR naming the faults. */
export function checkCredentials(destination: Destination, given: JsonObject | undefined): JsonObject | null {
  const isGiven = given !== undefined && Object.keys(given).length > 0;
  if (isGiven) checkSize(given, "credentials", mostCredentialsBytes);
  const credentials = isGiven ? checked(withoutNulls(destination.credentials), given, "credentials") : null;
  const faults = destination.faults?.(credentials ?? {}) ?? [];
  if (faults.length === 0) return credentials;
  throw invalid(faults.map(({ field, message }) => ({ field: `credentials.${field}`, message })));
}
