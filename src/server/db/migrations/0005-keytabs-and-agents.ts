import { Migration } from "@mikro-orm/migrations";

export class Migration0005 extends Migration {
  override up(): void {
    this.addSql(
      `create table "agent_enrollment_token" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "prefix" text not null, "hash" bytea not null, "hostname" text null, "created_by" uuid not null, "created_at" timestamptz(3) not null default now(), "expires_at" timestamptz(3) not null, "used_at" timestamptz(3) null, primary key ("id"))`,
    );
    this.addSql(
      `create index "agent_enrollment_token_organization_id_index" on "agent_enrollment_token" ("organization_id")`,
    );
    this.addSql(
      `alter table "agent_enrollment_token" add constraint "agent_enrollment_token_hash_key" unique ("hash")`,
    );
    this.addSql(
      `create table "cipher_policy" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "allowed_ciphers" text[] not null, "deprecated_ciphers" text[] not null, "enforcement_mode" text not null, "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `alter table "cipher_policy" add constraint "cipher_policy_organization_id_key" unique ("organization_id")`,
    );
    this.addSql(
      `create table "agent" ("id" uuid not null, "organization_id" uuid not null, "hostname" text not null, "version" text not null default '', "os" text not null default '', "disabled_at" timestamptz(3) null, "last_heartbeat" timestamptz(3) null, "last_scan_at" timestamptz(3) null, "scan_errors" jsonb not null default '[]', "created_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(`create index "agent_organization_id_hostname_index" on "agent" ("organization_id", "hostname", "id")`);
    this.addSql(
      `create table "agent_command" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "agent_id" uuid not null, "file_path" text not null, "expected_hash" text not null, "status" text not null default 'pending', "upload" bytea null, "failure" text null, "created_at" timestamptz(3) not null default now(), "expires_at" timestamptz(3) not null, primary key ("id"))`,
    );
    this.addSql(`create index "agent_command_agent_id_index" on "agent_command" ("agent_id") where status = 'pending'`);
    this.addSql(`create index "agent_command_expires_at_index" on "agent_command" ("expires_at")`);
    this.addSql(
      `create table "keytab" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "project_id" uuid null, "name" text not null, "principal" text not null, "realm" text not null, "kvno" bigint not null, "encryption_types" text[] not null, "status" text not null default 'active', "cipher_compliance" text not null, "source" text not null, "version" int not null default 1, "entry_count" int not null, "keytab_hash" text not null, "expires_at" timestamptz(3) null, "notes" text not null default '', "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), "deleted_at" timestamptz(3) null, primary key ("id"))`,
    );
    this.addSql(
      `create index "keytab_organization_id_created_at_index" on "keytab" ("organization_id", "created_at", "id")`,
    );
    this.addSql(
      `create index "keytab_expires_at_index" on "keytab" ("expires_at") where expires_at is not null and status = 'active' and deleted_at is null`,
    );
    this.addSql(`create index "keytab_project_id_index" on "keytab" ("project_id")`);
    this.addSql(
      `create index "keytab_organization_id_principal_index" on "keytab" ("organization_id", hashtextextended(principal, 0), "kvno") where deleted_at is null`,
    );
    this.addSql(
      `create unique index "keytab_organization_id_keytab_hash_key" on "keytab" ("organization_id", "keytab_hash") where deleted_at is null`,
    );
    this.addSql(
      `create table "keytab_version" ("id" uuid not null default uuidv7(), "keytab_id" uuid not null, "version" int not null, "organization_id" uuid not null, "sealed" bytea not null, "encryption_types" text[] not null, "kvno" bigint not null, "keytab_hash" text not null, "changed_by" uuid not null, "change_reason" text not null default '', "created_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `alter table "keytab_version" add constraint "keytab_version_keytab_id_version_key" unique ("keytab_id", "version")`,
    );
    this.addSql(
      `create table "discovered_keytab" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "agent_id" uuid not null, "file_path" text not null, "root" text not null, "keytab_hash" text not null, "principal" text not null, "realm" text not null, "kvno" bigint not null, "encryption_types" text[] not null, "file_permissions" text not null, "file_owner" text not null, "findings" text[] not null default '{}', "managed_keytab_id" uuid null, "ignored_at" timestamptz(3) null, "ignored_reason" text null, "stale" boolean not null default false, "scan_id" uuid not null, "discovered_at" timestamptz(3) not null default now(), "last_seen_at" timestamptz(3) not null default now(), primary key ("id")) with (fillfactor = 50)`,
    );
    this.addSql(
      `create index "discovered_keytab_organization_id_keytab_hash_index" on "discovered_keytab" ("organization_id", "keytab_hash", "agent_id")`,
    );
    this.addSql(
      `create index "discovered_keytab_organization_id_principal_index" on "discovered_keytab" ("organization_id", hashtextextended(principal, 0), "kvno") where not stale`,
    );
    this.addSql(
      `create index "discovered_keytab_managed_keytab_id_index" on "discovered_keytab" ("managed_keytab_id")`,
    );
    this.addSql(
      `create unique index "discovered_keytab_agent_id_file_path_key" on "discovered_keytab" (agent_id, sha256(replace(file_path, '\\', '\\\\')::bytea))`,
    );
    this.addSql(
      `alter table "cipher_policy" add constraint "cipher_policy_enforcement_mode_check" check ("enforcement_mode" in ('warn', 'enforce'))`,
    );
    this.addSql(
      `alter table "agent" add constraint "agent_id_foreign" foreign key ("id") references "machine_identity" ("id") on update cascade on delete cascade`,
    );
    this.addSql(
      `alter table "agent_command" add constraint "agent_command_agent_id_foreign" foreign key ("agent_id") references "agent" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "agent_command" add constraint "agent_command_status_check" check ("status" in ('pending', 'uploaded', 'changed', 'failed'))`,
    );
    this.addSql(
      `alter table "keytab" add constraint "keytab_project_id_foreign" foreign key ("project_id") references "project" ("id")`,
    );
    this.addSql(
      `alter table "keytab" add constraint "keytab_status_check" check ("status" in ('active', 'disabled', 'expired'))`,
    );
    this.addSql(
      `alter table "keytab" add constraint "keytab_cipher_compliance_check" check ("cipher_compliance" in ('compliant', 'warning', 'non_compliant'))`,
    );
    this.addSql(
      `alter table "keytab" add constraint "keytab_source_check" check ("source" in ('import', 'discovered', 'agent'))`,
    );
    this.addSql(
      `alter table "keytab_version" add constraint "keytab_version_keytab_id_foreign" foreign key ("keytab_id") references "keytab" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "discovered_keytab" add constraint "discovered_keytab_agent_id_foreign" foreign key ("agent_id") references "agent" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "discovered_keytab" add constraint "discovered_keytab_managed_keytab_id_foreign" foreign key ("managed_keytab_id") references "keytab" ("id") on delete set null`,
    );
  }
}
