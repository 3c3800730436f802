import { Migration } from "@mikro-orm/migrations";

export class Migration0007 extends Migration {
  override up(): void {
    this.addSql(
      `create table "rotation_template" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "name" text not null, "description" text not null default '', "project_id" uuid null, "rotation_interval_days" int null, "lead_time_days" int null, "grace_period_days" int null, "secret_custody_mode" text not null default 'local', "is_default" boolean not null default false, "created_by" text not null, "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `create index "rotation_template_project_id_index" on "rotation_template" ("project_id") where project_id is not null`,
    );
    this.addSql(
      `alter table "rotation_template" add constraint "rotation_template_name_key" unique ("organization_id", "name")`,
    );
    this.addSql(
      `create unique index "rotation_template_default_key" on "rotation_template" ("organization_id") where is_default`,
    );
    this.addSql(
      `create table "secret_link" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "secret_id" uuid not null, "integration" text not null, "name" text not null default '', "environment" text null, "config" jsonb not null, "place" bytea not null, "host" text not null, "credentials" bytea null, "sync_enabled" boolean not null default true, "status" text not null default 'pending', "owned" boolean not null default false, "version" int null, "last_synced" timestamptz(3) null, "last_error_code" text null, "last_error_message" text null, "last_error_at" timestamptz(3) null, "failures" int not null default 0, "due_at" timestamptz(3) null, "claim_id" uuid null, "claimed_version" int null, "again" boolean not null default false, "created_by" text not null, "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(`create index "secret_link_due_at_index" on "secret_link" ("host", "due_at") where due_at is not null`);
    this.addSql(`create index "secret_link_claim_index" on "secret_link" ("host") where claim_id is not null`);
    this.addSql(
      `alter table "secret_link" add constraint "secret_link_place_key" unique ("secret_id", "integration", "place")`,
    );
    this.addSql(
      `create unique index "secret_link_owner_key" on "secret_link" ("organization_id", "integration", "place") where owned`,
    );
    this.addSql(
      `create index "gateway_task_server_index" on "gateway_task" ("created_at", "id") where environment is null and status in ('pending', 'running')`,
    );
    this.addSql(`alter table "gateway_task" add "version" int null, add "unresolved" boolean not null default false`);
    this.addSql(`alter table "secret" add "rotation_due_at" timestamptz(3) null`);
    this.addSql(
      `create index "secret_rotation_due_at_index" on "secret" ("rotation_due_at") where rotation_due_at is not null and status = 'active'`,
    );
    this.addSql(
      `alter table "rotation_config" add "grace_period_days" int not null default 0, add "candidate_attempts" int not null default 0, add "unresolved" boolean not null default false, add "earlier_candidates" bytea null, add "failure_told_at" timestamptz(3) null`,
    );
    this.addSql(`alter table "secret_version" add "grace_ends_at" timestamptz(3) null`);
    this.addSql(
      `alter table "rotation_template" add constraint "rotation_template_project_id_foreign" foreign key ("project_id") references "project" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "rotation_template" add constraint "rotation_template_secret_custody_mode_check" check ("secret_custody_mode" in ('local', 'transient', 'delegated'))`,
    );
    this.addSql(
      `alter table "secret_link" add constraint "secret_link_secret_id_foreign" foreign key ("secret_id") references "secret" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "secret_link" add constraint "secret_link_status_check" check ("status" in ('pending', 'syncing', 'synced', 'failed', 'disabled'))`,
    );
    // Nothing was rotated by schedule before: what is overdue begins its interval anew, so that nothing rotates by surprise.
    this.addSql(`update secret set next_rotation = now() + make_interval(days => coalesce(rotation_interval_days, 30))
where next_rotation <= now()`);
    this.addSql(`update secret set rotation_due_at = next_rotation where next_rotation is not null`);
    // Links follow their secret, whoever changes it: a new version is to be written, and one that is not active is not. A claim
    // outlasts that, as whoever has it goes on writing: until it is given back or has passed, nobody else writes there.
    this.addSql(`create function follow_secret() returns trigger language plpgsql as $f$
begin
  if new.status <> 'active' then
    update secret_link set status = 'disabled', due_at = case when claim_id is not null then due_at end, again = false
    where secret_id = new.id and status <> 'disabled';
    return null;
  end if;
  update secret_link set status = case when claim_id is not null and status = 'syncing' then 'syncing' else 'pending' end,
    due_at = case when claim_id is null then now() else due_at end, again = claim_id is not null, failures = 0
  where secret_id = new.id and sync_enabled;
  if found then
    perform pg_notify('holdfast_sync', '');
  end if;
  return null;
end $f$`);
    this.addSql(`create trigger secret_links after update of version, status, expires_at on secret for each row
when (old.version <> new.version or old.status <> new.status or old.expires_at is distinct from new.expires_at)
execute function follow_secret()`);
  }
}
