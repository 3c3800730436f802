import type { MessageInitShape } from "@bufbuild/protobuf";
import type { TaskSchema } from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import type { Queries } from "../db/database.ts";
import type { Conditions } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import type { FailedTask } from "./gateway-work.ts";

/** A task, as `taskColumns` read it. */
export interface TaskRow {
  readonly id: string;
  readonly gateway_id: string | null;
  readonly environment: string | null;
  readonly type: string;
  readonly status: string;
  readonly config_id: string;
  readonly secret_id: string;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly retry_of: string | null;
  readonly fencing_token: string | null;
  readonly created_at: string;
  readonly claimed_at: string | null;
  readonly deadline_at: string | null;
  readonly finished_at: string | null;
  readonly error: string | null;
}

/** The columns of a TaskRow, of the task in `t`. */
export const taskColumns = `t.id, t.gateway_id, t.environment, t.type, t.status, t.config_id, t.secret_id, t.attempt,
  t.max_attempts, t.retry_of, t.fencing_token, t.created_at, t.claimed_at, t.deadline_at, t.finished_at, t.error`;

/** The columns of the task in `t` as GatewayWork knows it. */
export const workColumns = `t.id, t.organization_id as "organizationId", t.environment, t.gateway_id as "gatewayId", t.type,
  t.config_id as "configId", t.secret_id as "secretId", t.attempt, t.requested_by as "requestedBy",
  t.change_reason as "changeReason"`;

/** What the audit log keeps of a task. */
export const auditedOf = ({
  type,
  configId,
  secretId,
  attempt,
  gatewayId,
}: Pick<FailedTask, "attempt" | "configId" | "gatewayId" | "secretId" | "type">) => ({
  type,
  config_id: configId,
  secret_id: secretId,
  attempt,
  gateway_id: gatewayId,
});

const mostShown = 100;

/** What is told of a task (G-8.20). */
export const answerTask = (row: TaskRow): MessageInitShape<typeof TaskSchema> => ({
  id: row.id,
  gatewayId: row.gateway_id ?? undefined,
  environment: row.environment ?? undefined,
  type: row.type,
  status: row.status,
  configId: row.config_id,
  secretId: row.secret_id,
  attempt: row.attempt,
  maxAttempts: row.max_attempts,
  retryOf: row.retry_of ?? undefined,
  fencingToken: row.fencing_token ?? undefined,
  createdAt: timestampOf(row.created_at),
  claimedAt: timestampOf(row.claimed_at),
  deadlineAt: timestampOf(row.deadline_at),
  finishedAt: timestampOf(row.finished_at),
  error: row.error ?? undefined,
});

/** The tasks that `where` selects of table `t`, the newest first. */
export async function listTasks(
  queries: Queries,
  where: Conditions,
  limit = mostShown,
): Promise<MessageInitShape<typeof TaskSchema>[]> {
  const rows = await queries.query<TaskRow>(
    `select ${taskColumns} from gateway_task t where ${where.text}
     order by t.created_at desc, t.id desc limit $${where.values.length + 1}`,
    [...where.values, limit],
  );
  return rows.map(answerTask);
}
