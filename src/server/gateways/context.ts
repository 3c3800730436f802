import { GatewayLinkService as gatewayLink } from "../../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { GatewayService as gatewayAdministration } from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import type { Context, Core } from "../context.ts";
import type { Exclusion } from "../wire/holding.ts";
import { EnvironmentLock, Gateway, GatewayMonitor, GatewayTask } from "./gateway.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { GatewayLinkService } from "./gateway-link-service.ts";
import { GatewayService } from "./gateway-service.ts";
import type { MakeGatewayWork } from "./gateway-work.ts";
import { gatewayMonitor } from "./monitor.ts";
import { purgeJob } from "./purge.ts";
import { timingOf } from "./timing.ts";

/** One failover operation of an environment at a time, over all replicas. */
const failover: Exclusion = {
  name: ({ environment }: { readonly environment: string }, call) =>
    `failover:${call.caller.organizationId}:${environment}`,
  refusal: "another failover operation is in progress",
};

/** Gateways, and who of them is active; `makeWork` makes what their tasks are about. */
export function gateways(makeWork: MakeGatewayWork): Context {
  const made = new WeakMap<Core, GatewayCore>();
  const coreOf = (core: Core): GatewayCore => {
    const found = made.get(core) ?? { ...core, timing: timingOf(core.config), work: makeWork(core) };
    made.set(core, found);
    return found;
  };
  return {
    entities: [Gateway, EnvironmentLock, GatewayMonitor, GatewayTask],
    services: (core) => [
      {
        descriptor: gatewayAdministration,
        implementation: new GatewayService(coreOf(core)),
        exclusions: { activateDr: failover, failback: failover },
      },
      { descriptor: gatewayLink, implementation: new GatewayLinkService(coreOf(core)) },
    ],
    jobs: (core) => [purgeJob(core)],
    background: (core) => {
      const monitor = gatewayMonitor(coreOf(core));
      monitor.start();
      return () => monitor.stop();
    },
  };
}
