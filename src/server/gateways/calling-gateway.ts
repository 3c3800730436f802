import { conflict, notFound, wrongState } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import type { Role, Status } from "./transitions.ts";

/** Which gateway calls, and which process of it. */
interface Caller {
  readonly gatewayId: string;
  readonly instanceId: string;
}

/** The gateway that calls. */
export interface CallingGateway {
  readonly id: string;
  readonly name: string;
  readonly environment: string;
  readonly role: Role;
  readonly activation_status: Status;
  readonly deactivated: boolean;
}

/** How a gateway is refused that another one has replaced, or an operator has removed (G-8.4). */
export const gatewayRetired = () => wrongState("the gateway has been replaced or removed");

/** How a process is refused once another one has registered as the same gateway. */
export const otherInstance = () => conflict("another instance of this gateway has registered");

/**
 * The gateway that calls. Throws NOT_FOUND for one that is not the caller's, FAILED_PRECONDITION for a retired one, and
 * ABORTED when another instance of it has registered.
 */
export async function callingGateway(call: Call, { gatewayId, instanceId }: Caller): Promise<CallingGateway> {
  const { id: identityId, organizationId } = call.caller;
  const [gateway] = await call.query<CallingGateway & { instance_id: string; retired: boolean }>(
    `select id, name, environment, role, activation_status, instance_id,
       deactivated_at is not null as deactivated, retired_at is not null as retired
     from gateway where id = $1 and organization_id = $2 and identity_id = $3`,
    [gatewayId, organizationId, identityId],
  );
  if (gateway === undefined) throw notFound("gateway");
  if (gateway.retired) throw gatewayRetired();
  if (gateway.instance_id !== instanceId.toLowerCase()) throw otherInstance();
  return gateway;
}
