import { Refusal } from "../errors.ts";
import type { Call } from "../wire/call.ts";

/** The agent that calls. */
export interface CallingAgent {
  readonly id: string;
  readonly hostname: string;
}

/** How a disabled agent is refused, wherever it is noticed. */
export const agentDisabled = () => new Refusal("PERMISSION_DENIED", "the agent is disabled");

/**
 * The agent that calls, which the call is then about. In a transaction it cannot be removed until that ends. Throws
 * PERMISSION_DENIED for an identity that never enrolled as an agent, and for an agent that is disabled.
 */
export async function callingAgent(call: Call): Promise<CallingAgent> {
  const { id, organizationId } = call.caller;
  const lock = call.policy?.transactional === true ? "for key share" : "";
  const [agent] = await call.query<{ hostname: string; disabled: boolean }>(
    `select hostname, disabled_at is not null as disabled from agent where id = $1 and organization_id = $2 ${lock}`,
    [id, organizationId],
  );
  if (agent === undefined) throw new Refusal("PERMISSION_DENIED", "the caller is not an enrolled agent");
  const { hostname, disabled } = agent;
  call.about({ type: "agent", id, name: hostname });
  if (disabled) throw agentDisabled();
  return { id, hostname };
}
