import { Migration } from "@mikro-orm/migrations";

export class Migration0008 extends Migration {
  override up(): void {
    this.addSql(
      `create table "certificate_authority" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "name" text not null, "type" text not null, "parent_id" uuid not null, "status" text not null default 'active', "subject" jsonb not null, "serial_number" text not null, "key_algorithm" text not null, "key_size" int not null, "max_path_length" int null, "name_constraints" jsonb null, "certificate" bytea not null, "chain_pem" text not null, "fingerprint_sha256" text not null, "not_before" timestamptz(3) not null, "not_after" timestamptz(3) not null, "sealed_key" bytea not null, "revoked_at" timestamptz(3) null, "revocation_reason" text null, "created_by" text not null, "created_at" timestamptz(3) not null default now(), "updated_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(`create index "certificate_authority_parent_id_index" on "certificate_authority" ("parent_id")`);
    this.addSql(
      `alter table "certificate_authority" add constraint "certificate_authority_name_key" unique ("organization_id", "name")`,
    );
    this.addSql(
      `create table "certificate_status" ("ca_id" uuid not null, "serial_number" text not null, "organization_id" uuid not null, "not_after" timestamptz(3) not null, "revoked_at" timestamptz(3) null, "revocation_reason" text null, primary key ("ca_id", "serial_number"))`,
    );
    this.addSql(
      `create index "certificate_status_revoked_index" on "certificate_status" ("ca_id", "serial_number") where revoked_at is not null`,
    );
    this.addSql(
      `create table "crl" ("ca_id" uuid not null, "organization_id" uuid not null, "number" bigint not null default '0', "this_update" timestamptz(3) null, "next_update" timestamptz(3) null, "size" bigint not null default '0', "sha256" text not null default '', "entries" int not null default 0, "due_at" timestamptz(3) not null, "claim_id" uuid null, "claimed_until" timestamptz(3) null, primary key ("ca_id"))`,
    );
    this.addSql(`create index "crl_due_at_index" on "crl" ("due_at")`);
    this.addSql(
      `create table "crl_part" ("ca_id" uuid not null, "number" bigint not null, "position" int not null, "bytes" bytea not null, primary key ("ca_id", "number", "position"))`,
    );
    this.addSql(
      `create table "governance_report" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "report" jsonb not null, "evaluation" jsonb not null, "imported_by" text not null, "imported_at" timestamptz(3) not null, primary key ("id"))`,
    );
    this.addSql(
      `create index "governance_report_organization_id_index" on "governance_report" ("organization_id", "imported_at", "id")`,
    );
    this.addSql(
      `create table "issuer_hash" ("name_hash" bytea not null, "key_hash" bytea not null, "ca_id" uuid not null, primary key ("name_hash", "key_hash"))`,
    );
    this.addSql(
      `create table "ocsp_signer" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "ca_id" uuid not null, "certificate" bytea not null, "sealed_key" bytea not null, "not_before" timestamptz(3) not null, "not_after" timestamptz(3) not null, "created_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(`create index "ocsp_signer_ca_id_index" on "ocsp_signer" ("ca_id", "not_after")`);
    this.addSql(
      `create table "certificate" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "ca_id" uuid not null, "project_id" uuid null, "serial_number" text not null, "subject" jsonb not null, "subject_alternative_names" jsonb not null, "key_algorithm" text not null, "key_size" int not null, "profile" text not null, "certificate" bytea not null, "fingerprint_sha256" text not null, "public_key_sha256" bytea not null, "not_before" timestamptz(3) not null, "not_after" timestamptz(3) not null, "auto_renew" boolean not null default false, "renewal_of" uuid null, "renewed_by" uuid null, "renew_at" timestamptz(3) null, "expiring_at" timestamptz(3) null, "created_by" text not null, "created_at" timestamptz(3) not null default now(), primary key ("id"))`,
    );
    this.addSql(
      `create index "certificate_organization_id_index" on "certificate" ("organization_id", "created_at", "id")`,
    );
    this.addSql(
      `create index "certificate_public_key_sha256_index" on "certificate" ("organization_id", "public_key_sha256")`,
    );
    this.addSql(
      `create index "certificate_project_id_index" on "certificate" ("project_id") where project_id is not null`,
    );
    this.addSql(`create index "certificate_not_after_index" on "certificate" ("organization_id", "not_after")`);
    this.addSql(`create index "certificate_renew_at_index" on "certificate" ("renew_at") where renew_at is not null`);
    this.addSql(
      `create index "certificate_expiring_at_index" on "certificate" ("expiring_at") where expiring_at is not null`,
    );
    this.addSql(
      `alter table "certificate" add constraint "certificate_serial_number_key" unique ("ca_id", "serial_number")`,
    );
    this.addSql(
      `alter table "organization" add "password_policy" jsonb not null default '{}', add "session_policy" jsonb not null default '{}'`,
    );
    this.addSql(
      `alter table "certificate_authority" add constraint "certificate_authority_type_check" check ("type" in ('root', 'intermediate'))`,
    );
    this.addSql(
      `alter table "certificate_authority" add constraint "certificate_authority_status_check" check ("status" in ('active', 'disabled', 'revoked'))`,
    );
    this.addSql(
      `alter table "certificate_status" add constraint "certificate_status_ca_id_foreign" foreign key ("ca_id") references "certificate_authority" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "crl" add constraint "crl_ca_id_foreign" foreign key ("ca_id") references "certificate_authority" ("id") on update cascade on delete cascade`,
    );
    this.addSql(
      `alter table "crl_part" add constraint "crl_part_ca_id_foreign" foreign key ("ca_id") references "certificate_authority" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "issuer_hash" add constraint "issuer_hash_ca_id_foreign" foreign key ("ca_id") references "certificate_authority" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "ocsp_signer" add constraint "ocsp_signer_ca_id_foreign" foreign key ("ca_id") references "certificate_authority" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "certificate" add constraint "certificate_ca_id_foreign" foreign key ("ca_id") references "certificate_authority" ("id") on delete cascade`,
    );
    this.addSql(
      `alter table "certificate" add constraint "certificate_project_id_foreign" foreign key ("project_id") references "project" ("id") on delete set null`,
    );
    this.addSql(
      `alter table "certificate" add constraint "certificate_profile_check" check ("profile" in ('server', 'client', 'server_client'))`,
    );
  }
}
