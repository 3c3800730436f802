import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import type { Core } from "../context.ts";
import { Conditions } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import { conflict, invalidField, notFound } from "../errors.ts";
import { listTasks } from "../gateways/task-record.ts";
import { findActive, lockSecret } from "../secrets/find-secret.ts";
import type { Secret } from "../secrets/secret.ts";
import { type Call, callOf } from "../wire/call.ts";
import { expectVersion } from "../wire/expected-version.ts";
import { applicationAfter } from "./application.ts";
import { type ConfigChange, readChange } from "./config-change.ts";
import { answerConfig, type ConfigRow, findConfig } from "./config-row.ts";
import { type Execution, noteQueued, queueRotation, rotateHere } from "./execution.ts";
import { isAppliedByNobody } from "./providers.ts";
import { saveConfig } from "./save-config.ts";
import type { ServerTasks } from "./server-tasks.ts";

/** What is rotated with. */
interface RotatingCore extends Pick<Core, "seal" | "wakes"> {
  readonly serverTasks: ServerTasks;
}

/** The methods of rotation_config_service.proto. `awaited-rotations.ts` completes what two of them answer. */
export class RotationConfigService implements ServiceImpl<typeof pb.RotationConfigService> {
  readonly #core: RotatingCore;

  constructor(core: RotatingCore) {
    this.#core = core;
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
    await saveConfig(call, this.#core.seal, secret, before, after, change.gracePeriodDays);
    if (request.rotateImmediately) {
      const config = await findConfig(call, { secretId: secret.id });
      const { taskId } = await this.#rotate(call, secret, config, queued, { changeReason: "" });
      call.alsoRecord("rotation_config.execute", {
        ...call.subject,
        details: { config_id: config.id, task_id: taskId },
      });
    }
    await call.em.flush();
    return answerConfig(await findConfig(call, { secretId: secret.id }));
  }

  async rotateSecret(request: pb.RotateSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const { id, value, changeReason, expectedVersion } = request;
    call.about({ reason: changeReason });
    const seen = await findConfig(call, { secretId: id });
    call.authorizeIn(seen.projectId);
    if (value !== undefined && !isAppliedByNobody(seen.provider)) {
      throw invalidField("value", `is only for the provider generated_value: ${seen.provider} brings it to a target`);
    }
    const queued = await queueRotation(call, this.#core, seen, seen, changeReason);
    const secret = await findActive(call, id);
    expectVersion(secret, expectedVersion);
    const config = await findConfig(call, { secretId: id });
    // Whoever waited for the lock behind another rotation came while that was running.
    if (config.lastRotated !== seen.lastRotated) throw conflict("another rotation of this secret is running");
    const { taskId, version } = await this.#rotate(call, secret, config, queued, { changeReason, value });
    call.about({ details: { config_id: config.id, task_id: taskId } });
    if (version === undefined) return { id: secret.id, taskId };
    return {
      id: secret.id,
      version,
      rotatedAt: timestampOf(secret.lastRotated ?? null),
      nextRotation: timestampOf(secret.nextRotation ?? null),
    };
  }

  async executeRotationConfig({ id, changeReason }: pb.ExecuteRotationConfigRequest, context: HandlerContext) {
    const call = callOf(context);
    call.about({ reason: changeReason });
    const seen = await findConfig(call, { configId: id });
    const queued = await queueRotation(call, this.#core, seen, seen, changeReason);
    const secret = await lockSecret(call.em, seen.secretId);
    if (secret === null) throw notFound("rotation configuration");
    const config = await findConfig(call, { configId: id });
    const { taskId, createdAt, environment, gatewayId, version } = await this.#rotate(call, secret, config, queued, {
      changeReason,
    });
    call.about({ details: { config_id: id, task_id: taskId } });
    return {
      configId: config.id,
      secretId: secret.id,
      taskId,
      status: version === undefined ? "pending" : "succeeded",
      environment: environment ?? undefined,
      gatewayId: gatewayId ?? undefined,
      version,
      createdAt: timestampOf(createdAt),
    };
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
    return queueRotation(call, this.#core, seen, applicationAfter(seen, change), "");
  }

  /** Rotates a locked secret by its configuration, or goes on with what was queued for it when that was not locked yet. */
  async #rotate(
    call: Call,
    secret: Secret,
    config: ConfigRow,
    queued: Execution | undefined,
    { changeReason, value }: { changeReason: string; value?: string | undefined },
  ): Promise<Execution> {
    const isQueued = queued !== undefined;
    if (
      isQueued === isAppliedByNobody(config.provider) ||
      (queued?.environment ?? null) !== config.gatewayEnvironment
    ) {
      throw conflict("the configuration was changed meanwhile");
    }
    if (!isQueued) {
      const asked = { requestedBy: call.caller.id, changeReason };
      return rotateHere(call, this.#core.seal, secret, config, asked, value);
    }
    await noteQueued(call, { ...config, configId: config.id });
    return queued;
  }
}
