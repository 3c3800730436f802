import type { Context } from "../context.ts";
import type { MakeGatewayWork } from "../gateways/gateway-work.ts";
import { GatewayReadiness, RotationConfig } from "./rotation-config.ts";

/** What gateways do for rotation. */
export const rotationWork: MakeGatewayWork = () => {
  throw new Error("rotation has no work for gateways yet");
};

export const rotation: Context = {
  entities: [RotationConfig, GatewayReadiness],
  services: () => [],
};
