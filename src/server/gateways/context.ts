import type { Context } from "../context.ts";
import { EnvironmentLock, Gateway, GatewayMonitor, GatewayTask } from "./gateway.ts";
import type { MakeGatewayWork } from "./gateway-work.ts";

/** Gateways, and who of them is active; `makeWork` makes what their tasks are about. */
export const gateways = (_makeWork: MakeGatewayWork): Context => ({
  entities: [Gateway, EnvironmentLock, GatewayMonitor, GatewayTask],
  services: () => [],
});
