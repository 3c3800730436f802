import { invalidField } from "../errors.ts";
import type { MakeGatewayWork, Task } from "../gateways/gateway-work.ts";
import { timingOf } from "../gateways/timing.ts";
import { contentOf } from "./assignment.ts";
import { queueDueChecks } from "./due-checks.ts";
import { cancelOrphanedTasks } from "./orphaned-tasks.ts";
import { rotationSucceeded, rotationsFailed } from "./outcome.ts";
import { noteChecks, readinessOf } from "./readiness.ts";

const isCheck = ({ type }: Pick<Task, "type">) => type === "verify_secret";

/** What gateways do for rotation. */
export const rotationWork: MakeGatewayWork = ({ config, seal, audit, wakes }) => {
  const timing = timingOf(config);
  return {
    content: (call, task) => contentOf(call, seal, task),
    async succeeded(call, task, value) {
      if (!isCheck(task)) return rotationSucceeded(call, seal, task, value);
      if (value !== undefined) throw invalidField("succeeded.value", "must be absent: a check makes no value");
      return noteChecks(call.em, [{ ...task, error: null }]);
    },
    async failed(em, tasks) {
      const { checks = [], rotations = [] } = Object.groupBy(tasks, (task) => (isCheck(task) ? "checks" : "rotations"));
      await rotationsFailed(em, audit, rotations);
      await noteChecks(em, checks);
    },
    cancelOrphaned: (em) => cancelOrphanedTasks(em, audit),
    queueChecks: (em) => queueDueChecks(em, wakes, timing),
    readiness: (queries, organizationId) => readinessOf(queries, organizationId, timing),
  };
};
