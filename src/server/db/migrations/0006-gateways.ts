import { Migration } from "@mikro-orm/migrations";

export class Migration0006 extends Migration {
  override up(): void {
    this.addSql(
      `create table "gateway_monitor" ("id" boolean not null default true, "last_run" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `create table "gateway" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "identity_id" uuid null, "name" text not null, "environment" text not null, "role" text not null, "activation_status" text not null default 'standby', "instance_id" uuid not null, "last_heartbeat" timestamptz(3) not null default now(), "silent_since" timestamptz(3) not null default now(), "hostname" text not null default '', "version" text not null default '', "region" text not null default '', "identity_client_id" text not null default '', "deactivated_at" timestamptz(3) null, "retired_at" timestamptz(3) null, "registered_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `create index "gateway_organization_id_index" on "gateway" ("organization_id", "environment", "role", "name")`,
    );
    this.addSql(`alter table "gateway" add constraint "gateway_identity_id_name_key" unique ("identity_id", "name")`);
    this.addSql(
      `create unique index "gateway_active_key" on "gateway" ("organization_id", "environment") where activation_status = 'active'`,
    );
    this.addSql(
      `create unique index "gateway_primary_key" on "gateway" ("organization_id", "environment") where role = 'primary' and retired_at is null`,
    );
    this.addSql(
      `create table "gateway_task" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "environment" text null, "gateway_id" uuid null, "type" text not null, "status" text not null default 'pending', "config_id" uuid not null, "secret_id" uuid not null, "attempt" int not null default 1, "max_attempts" int not null, "retry_of" uuid null, "claim_id" uuid null, "fencing_token" bigint null, "requested_by" text not null, "change_reason" text not null default '', "created_at" timestamptz(3) not null default now(), "claimed_at" timestamptz(3) null, "deadline_at" timestamptz(3) null, "finished_at" timestamptz(3) null, "error" text null, primary key ("id"))`,
    );
    this.addSql(`create index "gateway_task_gateway_id_index" on "gateway_task" ("gateway_id", "created_at", "id")`);
    this.addSql(
      `create index "gateway_task_status_index" on "gateway_task" ("gateway_id", "status", "created_at", "id")`,
    );
    this.addSql(`create index "gateway_task_config_id_index" on "gateway_task" ("config_id", "created_at", "id")`);
    this.addSql(
      `create index "gateway_task_open_index" on "gateway_task" ("organization_id", "environment") where status in ('pending', 'running')`,
    );
    this.addSql(
      `create index "gateway_task_deadline_at_index" on "gateway_task" ("deadline_at") where status = 'running'`,
    );
    this.addSql(
      `create index "gateway_task_finished_at_index" on "gateway_task" ("finished_at") where finished_at is not null`,
    );
    this.addSql(
      `create unique index "gateway_task_rotation_key" on "gateway_task" ("config_id") where type = 'rotate_secret' and status in ('pending', 'running')`,
    );
    this.addSql(
      `create unique index "gateway_task_verification_key" on "gateway_task" ("config_id", "gateway_id") where type = 'verify_secret' and status in ('pending', 'running')`,
    );
    this.addSql(
      `create table "environment_lock" ("organization_id" uuid not null, "environment" text not null, "holder_id" uuid null, "fencing_token" bigint null, "last_token" bigint not null default 0, "acquired_at" timestamptz(3) null, primary key ("organization_id", "environment"))`,
    );
    this.addSql(`create index "environment_lock_holder_id_index" on "environment_lock" ("holder_id")`);
    this.addSql(
      `create table "rotation_config" ("id" uuid not null, "organization_id" uuid not null, "secret_id" uuid not null, "provider" text not null default 'generated_value', "provider_settings" jsonb not null default '{}', "credentials" bytea null, "gateway_environment" text null, "candidate" bytea null, "last_status" text not null default 'never', "last_error_code" text null, "last_error_message" text null, "last_error_at" timestamptz(3) null, "consecutive_failures" int not null default 0, "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `create index "rotation_config_gateway_index" on "rotation_config" ("organization_id", "gateway_environment", "id") where gateway_environment is not null`,
    );
    this.addSql(`alter table "rotation_config" add constraint "rotation_config_secret_id_key" unique ("secret_id")`);
    this.addSql(
      `create table "gateway_readiness" ("gateway_id" uuid not null, "config_id" uuid not null, "organization_id" uuid not null, "error" text null, "checked_at" timestamptz(3) not null default now(), primary key ("gateway_id", "config_id"))`,
    );
    this.addSql(`create index "gateway_readiness_config_id_index" on "gateway_readiness" ("config_id")`);
    this.addSql(`alter table "secret" add "rotation_config_id" uuid not null default uuidv7()`);
    this.addSql(`alter table "secret" add constraint "secret_rotation_config_id_key" unique ("rotation_config_id")`);
    this.addSql(`alter table "gateway_monitor" add constraint "gateway_monitor_id_check" check (id)`);
    this.addSql(
      `alter table "gateway" add constraint "gateway_identity_id_foreign" foreign key ("identity_id") references "machine_identity" ("id") on delete set null`,
    );
    this.addSql(
      `alter table "gateway" add constraint "gateway_retired_check" check (retired_at is null or activation_status <> 'active')`,
    );
    this.addSql(
      `alter table "gateway" add constraint "gateway_role_check" check ("role" in ('primary', 'dr-standby'))`,
    );
    this.addSql(
      `alter table "gateway" add constraint "gateway_activation_status_check" check ("activation_status" in ('active', 'standby', 'failed'))`,
    );
    this.addSql(
      `alter table "gateway_task" add constraint "gateway_task_gateway_id_foreign" foreign key ("gateway_id") references "gateway" ("id") on delete no action`,
    );
    this.addSql(
      `alter table "gateway_task" add constraint "gateway_task_type_check" check ("type" in ('rotate_secret', 'verify_secret'))`,
    );
    this.addSql(
      `alter table "gateway_task" add constraint "gateway_task_status_check" check ("status" in ('pending', 'running', 'succeeded', 'failed', 'timed_out', 'cancelled'))`,
    );
    this.addSql(
      `alter table "environment_lock" add constraint "environment_lock_holder_id_foreign" foreign key ("holder_id") references "gateway" ("id") on delete no action`,
    );
    this.addSql(
      `alter table "environment_lock" add constraint "environment_lock_holder_check" check ((holder_id is null) = (fencing_token is null))`,
    );
    this.addSql(
      `alter table "environment_lock" add constraint "environment_lock_token_check" check (fencing_token is null or fencing_token = last_token)`,
    );
    this.addSql(
      `alter table "rotation_config" add constraint "rotation_config_secret_id_foreign" foreign key ("secret_id") references "secret" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "rotation_config" add constraint "rotation_config_last_status_check" check ("last_status" in ('never', 'running', 'succeeded', 'failed'))`,
    );
    this.addSql(
      `alter table "gateway_readiness" add constraint "gateway_readiness_gateway_id_foreign" foreign key ("gateway_id") references "gateway" ("id") on update cascade on delete cascade`,
    );
    this.addSql(
      `alter table "gateway_readiness" add constraint "gateway_readiness_config_id_foreign" foreign key ("config_id") references "rotation_config" ("id") on update cascade on delete cascade`,
    );
    this.addSql(`insert into gateway_monitor default values`);
    // Of an environment, the gateway that is active is the one that holds the lock, whatever a transaction did.
    this.addSql(`create function check_environment_lock() returns trigger language plpgsql as $f$
begin
  if (select g.id from gateway g where g.organization_id = new.organization_id and g.environment = new.environment
      and g.activation_status = 'active')
    is distinct from (select l.holder_id from environment_lock l
      where l.organization_id = new.organization_id and l.environment = new.environment)
  then raise exception 'the active gateway of an environment does not hold its lock' using errcode = 'check_violation';
  end if;
  return null;
end $f$`);
    this.addSql(`create constraint trigger gateway_environment_lock after insert or update of activation_status, environment
on gateway deferrable initially deferred for each row execute function check_environment_lock()`);
    this.addSql(`create constraint trigger environment_lock_gateway after insert or update of holder_id
on environment_lock deferrable initially deferred for each row execute function check_environment_lock()`);
    // Nobody in these organizations could ever give it to anybody.
    this.addSql(`insert into role_binding (organization_id, identity_id, role)
      select distinct on (b.organization_id) b.organization_id, b.identity_id, 'gateway:admin'
      from role_binding b
      join (select id from machine_identity where status = 'active'
        union all select id from user_account where status = 'active') i on i.id = b.identity_id
      where b.role = 'admin' and b.project_id is null and not exists (
        select from role_binding o where o.organization_id = b.organization_id and o.role = 'gateway:admin')
      order by b.organization_id, i.id`);
  }
}
