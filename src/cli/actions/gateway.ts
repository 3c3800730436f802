import {
  type Gateway,
  GatewaySchema,
  GatewayService,
  TaskSchema,
} from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { isId, theOnly } from "../find.ts";
import { note, printRecord, printRecords, timeText } from "../output.ts";
import { openSession } from "../session.ts";

export interface TaskListOptions extends Json {
  readonly status?: string;
}
export interface RetireOptions {
  readonly yes?: boolean;
}
export interface DeactivateOptions extends Json, RetireOptions {
  readonly reason?: string;
  readonly markFailed?: boolean;
}

export async function listTasks(gateway: string, { status, ...options }: TaskListOptions): Promise<void> {
  const api = openSession();
  // Retired ones, which have no name any more, have tasks too.
  const id = isId(gateway) ? gateway : (await findGateway(api, gateway)).id;
  const { tasks } = await api(GatewayService).listGatewayTasks({ id, status });
  printRecords(
    TaskSchema,
    tasks,
    [
      ["TASK", (task) => task.id],
      ["TYPE", ({ type }) => type],
      ["STATUS", (task) => task.status],
      ["ATTEMPT", ({ attempt, maxAttempts }) => `${attempt} of ${maxAttempts}`],
      ["CREATED", ({ createdAt }) => timeText(createdAt)],
      ["CLAIMED", ({ claimedAt }) => timeText(claimedAt)],
      ["FINISHED", ({ finishedAt }) => timeText(finishedAt)],
      ["SECRET", ({ secretId }) => secretId],
      ["ERROR", ({ error }) => error ?? ""],
    ],
    options,
  );
}

export async function deactivate(reference: string, options: DeactivateOptions): Promise<void> {
  const { reason = "", markFailed = false, yes } = options;
  const api = openSession();
  const gateway = await findGateway(api, reference);
  if (!yes && !(await askConsent(deactivationQuestion(gateway, markFailed), "agree with --yes"))) {
    return note("nothing was changed");
  }
  printGateway(await api(GatewayService).deactivateGateway({ id: gateway.id, reason, markFailed }), options);
}

function deactivationQuestion({ name, environment, activationStatus }: Gateway, markFailed: boolean): string {
  const what = `Take ${name} out of service${markFailed ? " and mark it failed" : ""}?`;
  return activationStatus === "active" ? `${what} It serves ${environment}, which nobody does then.` : what;
}

export async function retire(reference: string, { yes }: RetireOptions): Promise<void> {
  const api = openSession();
  const { id, name, environment } = await findGateway(api, reference);
  const question = `Retire ${name} of ${environment}? It can never register again.`;
  if (!yes && !(await askConsent(question, "agree with --yes"))) return note("nothing was retired");
  await api(GatewayService).retireGateway({ id });
  note(`retired ${name}`);
}

/** A gateway that is not retired. The same name may be that of gateways of several machine identities. */
async function findGateway(api: Api, reference: string): Promise<Gateway> {
  const { gateways } = await api(GatewayService).listGateways({});
  const found = gateways.filter(({ id, name }) =>
    isId(reference) ? id === reference.toLowerCase() : name === reference,
  );
  const describe = ({ id, environment, role, activationStatus }: Gateway) =>
    `${id}  ${role} of ${environment}, ${activationStatus}`;
  return theOnly(`gateway ${reference}`, found, describe, "say which by its id");
}

const printGateway = (gateway: Gateway, options: Json): void =>
  printRecord(
    GatewaySchema,
    gateway,
    [
      ["gateway", ({ name }) => name],
      ["id", ({ id }) => id],
      ["environment", ({ environment }) => environment],
      ["role", ({ role }) => role],
      ["status", ({ activationStatus }) => activationStatus],
      ["last heartbeat", ({ lastHeartbeat }) => timeText(lastHeartbeat)],
      ["failures", ({ consecutiveFailures }) => String(consecutiveFailures)],
      ["deactivated", ({ deactivatedAt }) => timeText(deactivatedAt)],
      ["hostname", ({ hostname }) => hostname],
      ["version", ({ version }) => version],
    ],
    options,
  );
