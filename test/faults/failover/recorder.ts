import type { Change, Commit, GatewayChange, TaskChange } from "../failover-history.ts";

/** One statement in the database whose history is recorded. */
export type Sql = (text: string) => Promise<Record<string, string | null>[]>;

/**
 * Records, in the database itself, what each transaction leaves of what a failover is about; what is rolled back is not
 * recorded. The server's PostgreSQL must run with `track_commit_timestamp = on`, which tells the order of the commits.
 */
export async function recordHistory(sql: Sql): Promise<void> {
  await sql(`create schema history`);
  await sql(`create table history.change (position bigserial primary key, transaction xid8 not null, of text not null,
    row jsonb not null)`);
  await sql(`create function history.record() returns trigger language plpgsql as $f$
    begin
      insert into history.change (transaction, of, row)
      values (pg_current_xact_id(), tg_argv[0], to_jsonb(new) - array['sealed', 'previous_hash', 'hash', 'details']);
      return null;
    end $f$`);
  const changes = {
    lock: "insert or update on environment_lock for each row",
    task: "insert or update on gateway_task for each row",
    // Heartbeats change other columns.
    gateway: "insert or update of activation_status, instance_id, deactivated_at on gateway for each row",
    version: "insert on secret_version for each row when (new.change_type = 'rotation')",
    event: "insert on audit_event for each row when (new.outcome = 'success')",
  };
  for (const [of, change] of Object.entries(changes)) {
    await sql(`create trigger history after ${change} execute function history.record('${of}')`);
  }
}

type Row = Readonly<Record<string, string | null>>;

/** What was recorded, in the order of the commits. */
export async function readHistory(sql: Sql): Promise<Commit[]> {
  const rows = await sql(`
    select c.of, c.transaction::text, r.* from history.change c,
      jsonb_to_record(c.row) as r (id text, organization_id text, environment text, holder_id text, fencing_token text,
        role text, activation_status text, instance_id text, deactivated_at text, type text, status text, gateway_id text, config_id text,
        secret_id text, attempt text, max_attempts text, retry_of text, claim_id text, version text, action text,
        request_id text, resource_id text)
    order by pg_xact_commit_timestamp(c.transaction::xid), c.transaction, c.position`);
  const transactions = Map.groupBy(rows, (row) => row["transaction"]);
  return [...transactions.values()].map((commit) => lastOfEach(commit.map(changeOf)));
}

/** A transaction may change a row several times; what nobody else sees need not follow the rules. */
function lastOfEach(changes: readonly Change[]): Commit {
  const last = new Map<unknown, Change>();
  for (const change of changes) last.set(keyOf(change), change);
  return [...last.values()];
}

const keyOf = (change: Change): unknown => {
  if (change.of === "lock") return change.environment;
  return change.of === "gateway" || change.of === "task" ? change.id : change;
};

function changeOf(row: Row): Change {
  const text = (name: string) => row[name] ?? "";
  const orNull = (name: string) => row[name] ?? null;
  const environment = `${text("organization_id")} ${text("environment")}`;
  const token = row["fencing_token"] == null ? null : BigInt(row["fencing_token"]);
  switch (row["of"]) {
    case "lock":
      return { of: "lock", environment, holder: orNull("holder_id"), token };
    case "gateway":
      return {
        of: "gateway",
        id: text("id"),
        environment,
        role: text("role") as GatewayChange["role"],
        status: text("activation_status") as GatewayChange["status"],
        instance: text("instance_id"),
        isDeactivated: row["deactivated_at"] !== null,
      };
    case "task":
      return {
        of: "task",
        id: text("id"),
        environment,
        type: text("type") as TaskChange["type"],
        status: text("status") as TaskChange["status"],
        gateway: orNull("gateway_id"),
        config: text("config_id"),
        secret: text("secret_id"),
        attempt: Number(row["attempt"]),
        maxAttempts: Number(row["max_attempts"]),
        retryOf: orNull("retry_of"),
        claim: orNull("claim_id"),
        token,
      };
    case "version":
      return { of: "version", secret: text("secret_id"), version: Number(row["version"]) };
    default:
      return { of: "event", action: text("action"), requestId: orNull("request_id"), resource: orNull("resource_id") };
  }
}
