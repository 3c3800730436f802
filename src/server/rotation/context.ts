import { RotationConfigService as configs } from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import { RotationTemplateService as templates } from "../../../gen/ts/holdfast/rotation/v1/rotation_template_service_pb.ts";
import type { Context, Core } from "../context.ts";
import { completeExecute, completeRotate } from "./awaited-rotations.ts";
import { GatewayReadiness, RotationConfig } from "./rotation-config.ts";
import { RotationConfigService } from "./rotation-config-service.ts";
import { RotationTemplate } from "./rotation-template.ts";
import { RotationTemplateService } from "./rotation-template-service.ts";
import { rotationScheduler } from "./scheduler.ts";
import { ServerTasks } from "./server-tasks.ts";

export { rotationWork } from "./rotation-work.ts";

/** One for each process: what the API queues is done by the same one that what is due is. */
const serverTasks = new WeakMap<Core, ServerTasks>();

function coreOf(core: Core): Core & { readonly serverTasks: ServerTasks } {
  const found = serverTasks.get(core) ?? new ServerTasks(core);
  serverTasks.set(core, found);
  return { ...core, serverTasks: found };
}

export const rotation: Context = {
  entities: [RotationConfig, GatewayReadiness, RotationTemplate],
  services: (core) => [
    {
      descriptor: configs,
      implementation: new RotationConfigService(coreOf(core)),
      completions: {
        rotateSecret: (answer, call, signal) => completeRotate(coreOf(core), answer, call, signal),
        executeRotationConfig: (answer, call, signal) => completeExecute(coreOf(core), answer, call, signal),
      },
    },
    { descriptor: templates, implementation: new RotationTemplateService() },
  ],
  background: (core) => () => coreOf(core).serverTasks.stop(),
  work(core) {
    const made = coreOf(core);
    const scheduler = rotationScheduler(made);
    scheduler.start();
    return async () => {
      await scheduler.stop();
      await made.serverTasks.stop();
    };
  },
};
