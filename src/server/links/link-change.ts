import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import * as pb from "../../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import { invalidField } from "../errors.ts";
import { mentions } from "../wire/update-mask.ts";
import type { LinkRow } from "./link-record.ts";
import { checkConfig, checkCredentials, destinationOf, type Whereabouts } from "./link-settings.ts";

/** What an update makes of a link. */
export interface LinkChange extends Whereabouts {
  readonly name: string;
  readonly environment: string | null;
  /** Undefined for those that are kept. */
  readonly credentials: JsonObject | null | undefined;
  readonly syncEnabled: boolean;
  /** It leads to another place: what was written at the one before stays there. */
  readonly isMoved: boolean;
  /** What was refused before may be taken now. */
  readonly isNew: boolean;
  readonly isEqual: boolean;
}

/** Throws VALIDATION_ERROR for what does not go together. */
export function changeOf(before: LinkRow, key: string, request: pb.UpdateLinkRequest): LinkChange {
  const mentioned = mentions(pb.UpdateLinkRequestSchema, request);
  const destination = destinationOf(before.integration);
  const isConfigGiven = mentioned("config") && request.config !== undefined;
  const { origin } = destination.place(before.config);
  const whereabouts = isConfigGiven ? checkConfig(destination, key, request.config ?? {}) : { ...before, origin };
  const credentials = mentioned("credentials") ? checkCredentials(destination, request.credentials) : undefined;
  const name = mentioned("name") ? (request.name ?? "") : before.name;
  const environment = mentioned("environment") ? (request.environment ?? null) : before.environment;
  const syncEnabled = request.syncEnabled ?? before.syncEnabled;
  const isOtherConfig = !isDeepStrictEqual(whereabouts.config, before.config);
  // Whoever may change a link does not learn its credentials: not by having them sent to a host of theirs, or in the clear.
  if (credentials === undefined && before.hasCredentials && whereabouts.origin !== origin)
    throw invalidField("credentials", "are to be given anew for another host");
  return {
    config: whereabouts.config,
    place: whereabouts.place,
    host: whereabouts.host,
    origin: whereabouts.origin,
    name,
    environment,
    credentials,
    syncEnabled,
    isMoved: !whereabouts.place.equals(before.place),
    isNew: isOtherConfig || credentials !== undefined || (syncEnabled && !before.syncEnabled),
    isEqual:
      !isOtherConfig &&
      credentials === undefined &&
      name === before.name &&
      environment === before.environment &&
      syncEnabled === before.syncEnabled,
  };
}
