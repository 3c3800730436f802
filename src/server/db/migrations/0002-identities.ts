import { Migration } from "@mikro-orm/migrations";

export class Migration0002 extends Migration {
  override up(): void {
    this.addSql(
      `create table "api_token" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "owner_id" uuid not null, "name" text not null, "prefix" text not null, "hash" bytea not null, "permissions" text[] not null default '{}', "project_ids" uuid[] not null default '{}', "allowed_ips" text[] not null default '{}', "rate_limit_per_minute" int null, "expires_at" timestamptz(3) null, "last_used_at" timestamptz(3) null, "revoked_at" timestamptz(3) null, "revoked_reason" text null, "created_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(`create index "api_token_owner_id_index" on "api_token" ("owner_id", "id")`);
    this.addSql(`alter table "api_token" add constraint "api_token_hash_key" unique ("hash")`);
    this.addSql(
      `create table "revoked_token" ("id" uuid not null, "organization_id" uuid not null, "expires_at" timestamptz(3) not null, primary key ("id"))`,
    );
    this.addSql(`create index "revoked_token_expires_at_index" on "revoked_token" ("expires_at")`);
    this.addSql(
      `create table "role" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "name" text not null, "description" text not null default '', "permissions" text[] not null default '{}', "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(`alter table "role" add constraint "role_organization_id_name_key" unique ("organization_id", "name")`);
    this.addSql(
      `create table "session" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "identity_id" uuid not null, "hash" bytea not null, "credential_version" int not null, "last_used_at" timestamptz(3) not null default now(), "expires_at" timestamptz(3) not null, "ended_at" timestamptz(3) null, "created_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(`create index "session_identity_id_index" on "session" ("identity_id")`);
    this.addSql(`create index "session_expires_at_index" on "session" ("expires_at")`);
    this.addSql(`alter table "session" add constraint "session_hash_key" unique ("hash")`);
    this.addSql(
      `create table "user_account" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "username" text not null, "email" text null, "display_name" text not null, "status" text not null default 'pending', "rate_limit_per_minute" int null, "credential_version" int not null default 1, "surviving_credential" uuid null, "srp_group" text null, "srp_salt" bytea null, "srp_verifier" bytea null, "enrollment_token_hash" bytea null, "enrollment_expires_at" timestamptz(3) null, "last_authenticated_at" timestamptz(3) null, "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `create index "user_account_organization_id_username_index" on "user_account" ("organization_id", "username")`,
    );
    this.addSql(`alter table "user_account" add constraint "user_account_username_key" unique ("username")`);
    this.addSql(`alter table "machine_identity" add "credential_version" int not null default 1`);
    this.addSql(`create index "role_binding_organization_id_role_index" on "role_binding" ("organization_id", "role")`);
    this.addSql(
      `alter table "user_account" add constraint "user_account_status_check" check ("status" in ('pending', 'active', 'disabled'))`,
    );
  }
}
