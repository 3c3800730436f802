import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import type { Core } from "../context.ts";
import { Conditions } from "../db/page.ts";
import { conflict, notFound } from "../errors.ts";
import { listTasks } from "../gateways/task-record.ts";
import { findActive, lockSecret } from "../secrets/find-secret.ts";
import type { Secret } from "../secrets/secret.ts";
import { type Call, callOf } from "../wire/call.ts";
import { applicationAfter } from "./application.ts";
import { type ConfigChange, readChange } from "./config-change.ts";
import { answerConfig, type ConfigRow, findConfig } from "./config-row.ts";
import { type Execution, noteQueued, queueRotation, rotateHere } from "./execution.ts";
import { saveConfig } from "./save-config.ts";

/** The methods of rotation_config_service.proto. */
export class RotationConfigService implements ServiceImpl<typeof pb.RotationConfigService> {
  readonly #seal: Core["seal"];
  readonly #wakes: Core["wakes"];

  constructor({ seal, wakes }: Pick<Core, "seal" | "wakes">) {
    this.#seal = seal;
    this.#wakes = wakes;
  }

  async getRotationConfig({ id }: pb.GetRotationConfigRequest, context: HandlerContext) {
    const call = callOf(context);
    const config = await findConfig(call, { secretId: id });
    call.authorizeIn(config.projectId);
    return answerConfig(config);
  }

  async updateRotationConfig(request: pb.UpdateRotationConfigRequest, context: HandlerContext) {
    const call = callOf(context);
    call.about({ type: "secret" });
    const change = readChange(request);
    const queued = request.rotateImmediately ? await this.#queueFor(call, request.id, change) : undefined;
    const secret = await findActive(call, request.id);
    const before = await findConfig(call, { secretId: secret.id });
    const after = applicationAfter(before, change);
    call.about({ details: { config_id: before.id, provider: after.provider } });
    secret.setRotation(call.now, change.enabled, change.intervalDays);
    await saveConfig(call, this.#seal, secret, before, after);
    if (request.rotateImmediately) {
      const config = await findConfig(call, { secretId: secret.id });
      const { taskId } = await this.#rotate(call, secret, config, queued, "");
      call.alsoRecord("rotation_config.execute", {
        ...call.subject,
        details: { config_id: config.id, task_id: taskId },
      });
    }
    await call.em.flush();
    return answerConfig(await findConfig(call, { secretId: secret.id }));
  }

  async executeRotationConfig({ id, changeReason }: pb.ExecuteRotationConfigRequest, context: HandlerContext) {
    const call = callOf(context);
    call.about({ reason: changeReason });
    const seen = await findConfig(call, { configId: id });
    const queued = await this.#queueIn(call, seen, seen.gatewayEnvironment, changeReason);
    const secret = await lockSecret(call.em, seen.secretId);
    if (secret === null) throw notFound("rotation configuration");
    const config = await findConfig(call, { configId: id });
    const execution = await this.#rotate(call, secret, config, queued, changeReason);
    call.about({ details: { config_id: id, task_id: execution.taskId } });
    return execution;
  }

  async listRotationTasks({ id }: pb.ListRotationTasksRequest, context: HandlerContext) {
    const call = callOf(context);
    const { projectId, organizationId } = await findConfig(call, { configId: id });
    call.authorizeIn(projectId);
    const where = new Conditions().add("t.organization_id = ?", organizationId).add("t.config_id = ?", id);
    return { tasks: await listTasks(call, where) };
  }

  /** Queues what an update asks for beside, by what it will make of the configuration. */
  async #queueFor(call: Call, secretId: string, change: ConfigChange): Promise<Execution | undefined> {
    const seen = await findConfig(call, { secretId });
    call.authorizeIn(seen.projectId);
    call.authorizeIn(seen.projectId, "rotation:execute");
    return this.#queueIn(call, seen, applicationAfter(seen, change).gatewayEnvironment, "");
  }

  /** A task for the gateway of an environment, which is queued before the secret is locked; none for the server's own. */
  async #queueIn(call: Call, config: ConfigRow, environment: string | null, reason: string) {
    return environment === null ? undefined : queueRotation(call, this.#wakes, config, environment, reason);
  }

  /** Rotates a locked secret by its configuration, or goes on with what was queued for it when that was not locked yet. */
  async #rotate(call: Call, secret: Secret, config: ConfigRow, queued: Execution | undefined, reason: string) {
    if ((queued?.environment ?? null) !== config.gatewayEnvironment) {
      throw conflict("the configuration was changed meanwhile");
    }
    if (queued === undefined) return rotateHere(call, this.#seal, secret, config, reason);
    await noteQueued(call, config);
    return queued;
  }
}
