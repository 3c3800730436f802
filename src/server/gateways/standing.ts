import type { MessageInitShape } from "@bufbuild/protobuf";
import type { StandingSchema } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { millis } from "../db/columns.ts";
import { timestampOf } from "../db/timestamp.ts";
import type { Timing } from "./timing.ts";
import type { Status } from "./transitions.ts";

/** How a gateway stands, as `standingColumns` read it. */
export interface StandingRow {
  readonly activation_status: Status;
  /** Of the environment, while this gateway holds it. */
  readonly fencing_token: string | null;
  readonly deactivated: boolean;
  /** Milliseconds since 1970. */
  readonly server_time: number;
}

/** The columns of a StandingRow, of the gateway in `g`. */
export const standingColumns = `g.activation_status, g.deactivated_at is not null as deactivated,
  (select l.fencing_token::text from environment_lock l
   where l.organization_id = g.organization_id and l.environment = g.environment and l.holder_id = g.id) as fencing_token,
  ${millis("statement_timestamp()")} as server_time`;

/** What a gateway is told of how it stands (G-8.5). Only the active one has a token. */
export const standing = (
  { activation_status, fencing_token, deactivated, server_time }: StandingRow,
  { heartbeatTimeout, heartbeatInterval }: Timing,
): MessageInitShape<typeof StandingSchema> => ({
  activationStatus: activation_status,
  fencingToken: activation_status === "active" ? (fencing_token ?? undefined) : undefined,
  leaseSeconds: heartbeatTimeout,
  serverTime: timestampOf(server_time),
  standDown: deactivated,
  heartbeatIntervalSeconds: heartbeatInterval,
});
