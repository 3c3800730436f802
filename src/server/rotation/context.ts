import { RotationConfigService as descriptor } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import type { Context } from "../context.ts";
import { GatewayReadiness, RotationConfig } from "./rotation-config.ts";
import { RotationConfigService } from "./rotation-config-service.ts";

export { rotationWork } from "./rotation-work.ts";

export const rotation: Context = {
  entities: [RotationConfig, GatewayReadiness],
  services: (core) => [{ descriptor, implementation: new RotationConfigService(core) }],
};
