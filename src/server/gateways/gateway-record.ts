import type { MessageInitShape } from "@bufbuild/protobuf";
import type * as pb from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import { type EntityManager, type Queries, run } from "../db/database.ts";
import { timestampOf } from "../db/timestamp.ts";
import { notFound } from "../errors.ts";
import type { Environment } from "./environment-lock.ts";
import type { Timing } from "./timing.ts";
import type { Role, Status } from "./transitions.ts";

/** A gateway, as `gatewayColumns` read it. */
export interface GatewayRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly environment: string;
  readonly role: Role;
  readonly activation_status: Status;
  readonly last_heartbeat: string;
  readonly seconds_since_heartbeat: number;
  /** Of the silence that counts: without the time in which nobody could be heard (G-8.6). */
  readonly seconds_silent: number;
  readonly hostname: string;
  readonly version: string;
  readonly region: string;
  readonly identity_client_id: string;
  /** Of the environment, while it holds that. */
  readonly fencing_token: string | null;
  readonly acquired_at: string | null;
  readonly deactivated_at: string | null;
  readonly registered_at: string;
  readonly updated_at: string;
}

/** By the clock of the statement, which is past whatever the transaction waited for before. */
const secondsSince = (column: string) => `greatest(0, extract(epoch from statement_timestamp() - ${column}))::float8`;

const gatewayColumns = `g.id, g.organization_id, g.name, g.environment, g.role, g.activation_status, g.last_heartbeat,
  ${secondsSince("g.last_heartbeat")} as seconds_since_heartbeat, ${secondsSince("g.silent_since")} as seconds_silent,
  g.hostname, g.version, g.region, g.identity_client_id, g.deactivated_at, g.registered_at, g.updated_at,
  l.fencing_token, l.acquired_at`;

const from = `gateway g left join environment_lock l
  on l.organization_id = g.organization_id and l.environment = g.environment and l.holder_id = g.id`;

/** The gateways of an organization, ordered by environment, role (the primary first) and name. */
export const listGateways = (queries: Queries, organizationId: string): Promise<GatewayRow[]> =>
  queries.query<GatewayRow>(
    `select ${gatewayColumns} from ${from} where g.organization_id = $1 and g.retired_at is null
     order by g.environment, g.role desc, g.name, g.id`,
    [organizationId],
  );

/** A gateway of an organization. Throws NOT_FOUND, also for one that is retired. */
export async function findGateway(queries: Queries, organizationId: string, id: string): Promise<GatewayRow> {
  const [gateway] = await queries.query<GatewayRow>(
    `select ${gatewayColumns} from ${from} where g.id = $1 and g.organization_id = $2 and g.retired_at is null`,
    [id, organizationId],
  );
  if (gateway === undefined) throw notFound("gateway");
  return gateway;
}

/**
 * The gateways of an environment that the transaction has locked. They stay as they are until it ends: their heartbeats
 * wait. Always locked in the order of their ids, so that nobody waits in a circle.
 */
export const lockGateways = (em: EntityManager, { organizationId, environment }: Environment): Promise<GatewayRow[]> =>
  run<GatewayRow>(
    em,
    `select ${gatewayColumns} from ${from}
     where g.organization_id = $1 and g.environment = $2 and g.retired_at is null order by g.id for no key update of g`,
    [organizationId, environment],
  );

/** Whether it was heard of within the heartbeat timeout, however it stands. */
export const isHealthy = ({ seconds_since_heartbeat }: GatewayRow, { heartbeatTimeout }: Timing): boolean =>
  seconds_since_heartbeat < heartbeatTimeout;

/** The whole heartbeat timeouts that it has been silent for (G-8.6). */
export const consecutiveFailures = ({ seconds_silent }: GatewayRow, { heartbeatTimeout }: Timing): number =>
  Math.floor(seconds_silent / heartbeatTimeout);

/** What is told of a gateway. */
export const answerGateway = (row: GatewayRow, timing: Timing): MessageInitShape<typeof pb.GatewaySchema> => ({
  ...standingOf(row, timing),
  organizationId: row.organization_id,
  hostname: row.hostname,
  version: row.version,
  region: row.region,
  identityClientId: row.identity_client_id,
  holdsLock: row.fencing_token !== null,
  registeredAt: timestampOf(row.registered_at),
  updatedAt: timestampOf(row.updated_at),
});

/** What is told of whether a gateway is alive. */
export const answerVitals = (row: GatewayRow, timing: Timing): MessageInitShape<typeof pb.GatewayVitalsSchema> => ({
  ...standingOf(row, timing),
  secondsSinceHeartbeat: Math.floor(row.seconds_since_heartbeat),
  healthy: isHealthy(row, timing),
});

/** Who it is, and how it stands. */
const standingOf = (row: GatewayRow, timing: Timing) => ({
  id: row.id,
  name: row.name,
  environment: row.environment,
  role: row.role,
  activationStatus: row.activation_status,
  lastHeartbeat: timestampOf(row.last_heartbeat),
  consecutiveFailures: consecutiveFailures(row, timing),
  deactivatedAt: timestampOf(row.deactivated_at),
});
