import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  RegisterRequest,
  RegisterResponseSchema,
} from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { run } from "../db/database.ts";
import { duplicate, violates, wrongState } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { gatewayRetired } from "./calling-gateway.ts";
import { lockEnvironment } from "./environment-lock.ts";
import { type HandOver, handOver, retire } from "./gateway-changes.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { type GatewayRow, isHealthy, lockGateways } from "./gateway-record.ts";
import { heartbeatOf, primaryOf } from "./judgement.ts";
import { type StandingRow, standing, standingColumns } from "./standing.ts";
import { gatewayTopic } from "./task-streams.ts";
import { firstStatus, type Role, type Status } from "./transitions.ts";

type Core = Pick<GatewayCore, "timing" | "wakes" | "work">;

interface Known {
  readonly id: string;
  readonly environment: string;
  readonly role: Role;
  readonly activation_status: Status;
  readonly instance_id: string;
  readonly retired: boolean;
}

/** What a registration did, as the audit log tells it. */
interface Registered {
  readonly id: string;
  readonly details: Record<string, unknown>;
}

/**
 * Registers the calling gateway, in the call's transaction: the same identity and name are the same gateway (G-8.1). A
 * new primary of an environment that nobody holds becomes active (G-8.2); an active gateway that was started again gets
 * a new token (G-8.3). Throws ALREADY_EXISTS for a second primary while the first is active or talks (G-8.4), and
 * FAILED_PRECONDITION for a known gateway with another environment or role, and for a retired one.
 */
export async function registerGateway(
  call: Call,
  request: RegisterRequest,
  core: Core,
): Promise<MessageInitShape<typeof RegisterResponseSchema>> {
  const { em, caller } = call;
  const environment = { organizationId: caller.organizationId, environment: request.environment };
  call.about({ name: request.name, details: { environment: request.environment, role: request.role } });
  const holder = await lockEnvironment(em, environment);
  const gateways = await lockGateways(em, environment);
  const known = await findKnown(call, request.name);
  const { id, details } =
    known === undefined
      ? await admit(call, request, { gateways, isHeld: holder !== undefined }, core)
      : await readmit(call, request, known, core);
  call.about({ id, details: { ...call.subject.details, ...details } });
  const [row] = await run<StandingRow>(
    em,
    `select ${standingColumns} from gateway g where g.id = $1 and g.organization_id = $2`,
    [id, caller.organizationId],
  );
  call.afterCommit(async () => core.wakes.wake(gatewayTopic(id)));
  return { gatewayId: id, standing: standing(row as StandingRow, core.timing) };
}

async function findKnown(call: Call, name: string): Promise<Known | undefined> {
  const [known] = await run<Known>(
    call.em,
    `select id, environment, role, activation_status, instance_id, retired_at is not null as retired
     from gateway where identity_id = $1 and name = $2 and organization_id = $3`,
    [call.caller.id, name, call.caller.organizationId],
  );
  return known;
}

/** A gateway that nobody knows yet. */
async function admit(
  call: Call,
  request: RegisterRequest,
  { gateways, isHeld }: { readonly gateways: readonly GatewayRow[]; readonly isHeld: boolean },
  core: Core,
): Promise<Registered> {
  const { em, caller } = call;
  const role = request.role as Role;
  const incumbent = role === "primary" ? primaryOf(gateways) : undefined;
  if (incumbent !== undefined) await replace(call, incumbent, core);
  const status = firstStatus(role, { isHeld, isReplacement: incumbent !== undefined });
  const [created] = await run<{ id: string }>(
    em,
    `insert into gateway (organization_id, identity_id, name, environment, role, activation_status, instance_id,
       version, hostname, region, identity_client_id)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning id`,
    [
      caller.organizationId,
      caller.id,
      request.name,
      request.environment,
      role,
      status,
      request.instanceId,
      ...descriptionOf(request),
    ],
  ).catch(nameTaken);
  const { id } = created as { id: string };
  const environment = { organizationId: caller.organizationId, environment: request.environment };
  const handed = status === "active" ? await handOver(em, core, environment, id) : undefined;
  return { id, details: { first: true, after: status, ...replacedBy(incumbent), ...handed } };
}

const replacedBy = (incumbent: GatewayRow | undefined) => (incumbent === undefined ? {} : { replaces: incumbent.id });

/** The machine of a primary was replaced: the one before ends, unless it is in service or talks. */
async function replace(call: Call, incumbent: GatewayRow, { timing, wakes }: Core): Promise<void> {
  const { id, name, activation_status, environment } = incumbent;
  if (activation_status === "active" || isHealthy(incumbent, timing)) {
    const state = `${activation_status}, ${heartbeatOf(incumbent)}`;
    throw duplicate("role", `primary is taken in this environment by gateway ${name}: ${state}`);
  }
  await retire(call.em, incumbent);
  call.alsoRecord("gateway.retire", { id, name, details: { environment, before: activation_status } });
  call.afterCommit(async () => wakes.wake(gatewayTopic(id)));
}

/** A gateway that keeps its state; what another instance of it was doing is fenced. */
async function readmit(call: Call, request: RegisterRequest, known: Known, core: Core): Promise<Registered> {
  const { em, caller } = call;
  const { id, environment, role, activation_status: status } = known;
  call.about({ id });
  if (known.retired) throw gatewayRetired();
  if (environment !== request.environment || role !== request.role) {
    throw wrongState(`the gateway is registered as ${role} of the environment ${environment}`);
  }
  await run(
    em,
    `update gateway set instance_id = $3, version = $4, hostname = $5, region = $6, identity_client_id = $7,
       last_heartbeat = now(), silent_since = now(), updated_at = now()
     where id = $1 and organization_id = $2`,
    [id, caller.organizationId, request.instanceId, ...descriptionOf(request)],
  );
  const isRestart = known.instance_id !== request.instanceId.toLowerCase();
  let handed: HandOver | undefined;
  if (isRestart && status === "active") {
    handed = await handOver(em, core, { organizationId: caller.organizationId, environment }, id);
  }
  return { id, details: { first: false, restarted: isRestart, after: status, ...handed } };
}

const descriptionOf = ({ version, hostname, region, identityClientId }: RegisterRequest) => [
  version,
  hostname,
  region,
  identityClientId,
];

/** It registers in two environments at once. */
function nameTaken(error: unknown): never {
  throw violates(error, "gateway_identity_id_name_key")
    ? wrongState("the gateway is registered in another environment")
    : error;
}
