import { Migration } from "@mikro-orm/migrations";

/** uuidv7() came with PostgreSQL 18; this makes the same of older ones (RFC 9562 section 5.7, sub-millisecond fraction). */
const uuidv7ForOlderServers = `do $do$ begin
  if current_setting('server_version_num')::int < 180000 then
    create or replace function uuidv7() returns uuid language sql volatile parallel safe as $f$
      select encode(set_byte(set_byte(overlay(uuid_send(gen_random_uuid())
          placing substring(int8send(floor(t * 1000)::bigint) from 3) from 1 for 6),
        6, 112 | ((floor((t * 1000 - floor(t * 1000)) * 4096)::int >> 8) & 15)),
        7, floor((t * 1000 - floor(t * 1000)) * 4096)::int & 255), 'hex')::uuid
      from (select extract(epoch from clock_timestamp()) as t) s $f$;
  end if;
end $do$`;

export class Migration0001 extends Migration {
  override up(): void {
    this.addSql(uuidv7ForOlderServers);
    this.addSql(
      `create table "audit_event" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "occurred_at" timestamptz(3) not null, "action" text not null, "outcome" text not null, "actor_type" text not null, "actor_id" uuid null, "actor_name" text null, "resource_type" text not null, "resource_id" text null, "resource_name" text null, "project_id" uuid null, "reason" text null, "request_id" text null, "source_ip" text null, "user_agent" text null, "details" text not null, primary key ("id"))`,
    );
    this.addSql(
      `create index "audit_event_occurred_at_index" on "audit_event" ("organization_id", "occurred_at", "id")`,
    );
    this.addSql(
      `create index "audit_event_resource_index" on "audit_event" ("organization_id", "resource_id", "occurred_at")`,
    );
    this.addSql(
      `create index "audit_event_actor_index" on "audit_event" ("organization_id", "actor_id", "occurred_at")`,
    );
    this.addSql(`create index "audit_event_request_index" on "audit_event" ("organization_id", "request_id")`);
    this.addSql(
      `create table "data_key" ("record_id" uuid not null, "organization_id" uuid not null, "wrapped" bytea not null, primary key ("record_id"))`,
    );
    this.addSql(`create index "data_key_organization_id_index" on "data_key" ("organization_id")`);
    this.addSql(
      `create table "idempotency_record" ("identity_id" uuid not null, "key" text not null, "organization_id" uuid not null, "project_id" uuid null, "request" bytea not null, "outcome" bytea not null, "created_at" timestamptz(3) not null default now(), primary key ("identity_id", "key"))`,
    );
    this.addSql(`create index "idempotency_record_created_at_index" on "idempotency_record" ("created_at")`);
    this.addSql(
      `create table "machine_identity" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "name" text not null, "client_id" text not null default (uuidv7())::text, "status" text not null default 'active', "access_token_ttl_seconds" int null, "allowed_ips" text[] not null default '{}', "rate_limit_per_minute" int null, "last_authenticated_at" timestamptz(3) null, "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `alter table "machine_identity" add constraint "machine_identity_organization_id_name_key" unique ("organization_id", "name")`,
    );
    this.addSql(`alter table "machine_identity" add constraint "machine_identity_client_id_key" unique ("client_id")`);
    this.addSql(
      `create table "client_secret" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "machine_identity_id" uuid not null, "description" text not null default '', "prefix" text not null, "hash" bytea not null, "max_uses" int null, "use_count" int not null default 0, "revoked_at" timestamptz(3) null, "revoked_reason" text null, "expires_at" timestamptz(3) null, "created_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `alter table "client_secret" add constraint "client_secret_machine_identity_id_hash_key" unique ("machine_identity_id", "hash")`,
    );
    this.addSql(
      `create table "organization" ("id" uuid not null default uuidv7(), "name" text not null, "instance" boolean not null default false, "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(`alter table "organization" add constraint "organization_name_key" unique ("name")`);
    this.addSql(
      `create table "organization_key" ("organization_id" uuid not null, "wrapped" bytea not null, "created_at" timestamptz(3) not null default now(), primary key ("organization_id"))`,
    );
    this.addSql(
      `create table "project" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "name" text not null, "description" text not null default '', "key_scope" text not null default 'project', "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `alter table "project" add constraint "project_organization_id_name_key" unique ("organization_id", "name")`,
    );
    this.addSql(
      `create table "role_binding" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "identity_id" uuid not null, "role" text not null, "project_id" uuid null, primary key ("id"))`,
    );
    this.addSql(`create index "role_binding_identity_id_index" on "role_binding" ("identity_id")`);
    this.addSql(`create index "role_binding_project_id_index" on "role_binding" ("project_id")`);
    this.addSql(
      `create table "secret" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "project_id" uuid not null, "key" text collate "C" not null, "key_environment" text not null default '', "environment" text null, "type" text not null default 'generic', "description" text not null default '', "tags" text[] not null default '{}', "metadata" jsonb not null default '{}', "status" text not null default 'active', "version" int not null default 1, "created_by" text not null, "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), "archived_at" timestamptz(3) null, "deleted_at" timestamptz(3) null, "expires_at" timestamptz(3) null, "rotation_enabled" boolean not null default false, "rotation_interval_days" int null, "last_rotated" timestamptz(3) null, "next_rotation" timestamptz(3) null, primary key ("id"))`,
    );
    this.addSql(`create index "secret_project_id_status_key_index" on "secret" ("project_id", "status", "key", "id")`);
    this.addSql(
      `create index "secret_expires_at_index" on "secret" ("expires_at") where expires_at is not null and status <> 'deleted'`,
    );
    this.addSql(`create index "secret_organization_id_index" on "secret" ("organization_id")`);
    this.addSql(
      `create unique index "secret_project_id_key_key" on "secret" ("project_id", "key_environment", "key") where status <> 'deleted'`,
    );
    this.addSql(
      `create table "secret_version" ("secret_id" uuid not null, "version" int not null, "organization_id" uuid not null, "sealed" bytea not null, "created_at" timestamptz(3) not null default now(), "created_by" text not null, "change_type" text not null, "change_reason" text not null default '', "source_version" int null, primary key ("secret_id", "version"))`,
    );
    this.addSql(
      `create table "service_key" ("name" text not null, "wrapped" bytea not null, "created_at" timestamptz(3) not null default now(), primary key ("name"))`,
    );
    this.addSql(
      `alter table "machine_identity" add constraint "machine_identity_status_check" check ("status" in ('active', 'disabled'))`,
    );
    this.addSql(
      `alter table "client_secret" add constraint "client_secret_machine_identity_id_foreign" foreign key ("machine_identity_id") references "machine_identity" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "project" add constraint "project_key_scope_check" check ("key_scope" in ('project', 'environment'))`,
    );
    this.addSql(
      `alter table "secret" add constraint "secret_project_id_foreign" foreign key ("project_id") references "project" ("id")`,
    );
    this.addSql(
      `alter table "secret" add constraint "secret_status_check" check ("status" in ('active', 'archived', 'deleted'))`,
    );
    this.addSql(
      `alter table "secret_version" add constraint "secret_version_secret_id_foreign" foreign key ("secret_id") references "secret" ("id") on delete cascade`,
    );
  }
}
