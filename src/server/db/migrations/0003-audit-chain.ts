import { Migration } from "@mikro-orm/migrations";

/** Refuses what would change or remove events, to everybody: a superuser's rights cannot be revoked. */
const appendOnly = (table: string) =>
  `create trigger append_only before update or delete or truncate on ${table}
     for each statement execute function audit.refuse_change()`;

/**
 * Makes the partition of a month, if there is none. It is made beside the table and attached, which keeps nobody from
 * writing. A month that has events in the default partition already stays there: they cannot be moved.
 */
const addPartition = `create function audit.add_partition(month date) returns void language plpgsql as $f$
  declare name text := 'event_' || to_char(month, 'YYYY_MM');
  begin
    perform pg_advisory_xact_lock(hashtextextended('holdfast:audit-partitions', 0));
    if to_regclass('audit.' || name) is not null then return; end if;
    execute format('create table audit.%I (like audit_event including defaults)', name);
    execute format($sql$${appendOnly("audit.%I")}$sql$, name);
    execute format('revoke update, delete, truncate on audit.%I from %I', name, current_user);
    execute format('alter table audit_event attach partition audit.%I for values from (%L) to (%L)', name,
      month::timestamp at time zone 'UTC', (month + interval '1 month') at time zone 'UTC');
  exception when check_violation then null;
  end $f$`;

/** What replicas of the release before write while they are being replaced; an installation that is new has none. */
const keepUnchained = [
  `create function audit.keep_unchained() returns trigger language plpgsql as $f$
    begin
      insert into audit.unchained_event
        select new.id, new.organization_id, new.occurred_at, new.action, new.outcome, new.actor_type, new.actor_id,
          new.actor_name, new.resource_type, new.resource_id, new.resource_name, new.project_id, new.reason,
          new.request_id, new.source_ip, new.user_agent, new.details;
      return null;
    end $f$`,
  `do $do$ begin
    if exists (select from audit.unchained_event) then
      create trigger keep_unchained before insert on audit_event
        for each row when (new.chain is null) execute function audit.keep_unchained();
    else
      drop table audit.unchained_event;
      drop function audit.keep_unchained;
    end if;
  end $do$`,
];

/**
 * Events become rows of chains, in partitions by month, that are only ever added. Those of before are kept aside: the
 * server chains them at its next start, since the key is not in the database.
 */
export class Migration0003 extends Migration {
  override up(): void {
    this.addSql(`create schema audit`);
    this.addSql(`alter table audit_event set schema audit`);
    this.addSql(`alter table audit.audit_event rename to unchained_event`);
    this.addSql(`alter index audit.audit_event_pkey rename to unchained_event_pkey`);
    for (const index of ["occurred_at", "resource", "actor", "request"]) {
      this.addSql(`drop index audit.audit_event_${index}_index`);
    }

    this.addSql(
      `create table "audit_chain" ("organization_id" uuid not null, "number" int not null, "length" int not null, "head" bytea not null, "seal" bytea not null, "written_at" timestamptz(3) not null default now(), primary key ("organization_id", "number")) with (fillfactor = 50)`,
    );
    this.addSql(
      `create table "audit_event" ("id" uuid not null default uuidv7(), "organization_id" uuid not null, "occurred_at" timestamptz(3) not null, "action" text not null, "outcome" text not null, "actor_type" text not null, "actor_id" uuid null, "actor_name" text null, "resource_type" text not null, "resource_id" text null, "resource_name" text null, "project_id" uuid null, "reason" text null, "request_id" text null, "source_ip" text null, "user_agent" text null, "details" text not null, "chain" int not null, "sequence" int not null, "previous_hash" bytea not null, "hash" bytea not null, primary key ("id", "occurred_at")) partition by range ("occurred_at")`,
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
      `alter table "audit_event" add constraint "audit_event_chain_key" unique ("organization_id", "chain", "sequence", "occurred_at")`,
    );

    this.addSql(`create function audit.refuse_change() returns trigger language plpgsql as $f$
      begin
        raise exception 'the audit log is only ever added to' using errcode = 'insufficient_privilege';
      end $f$`);
    this.addSql(`create table audit.event_default partition of audit_event default`);
    for (const table of ["audit_event", "audit.event_default"]) {
      this.addSql(appendOnly(table));
      this.addSql(`revoke update, delete, truncate on ${table} from current_user`);
    }
    this.addSql(`revoke delete, truncate on audit_chain from current_user`);
    this.addSql(`create trigger kept before delete or truncate on audit_chain
      for each statement execute function audit.refuse_change()`);

    this.addSql(addPartition);
    this.addSql(`select audit.add_partition(month::date) from generate_series(
      date_trunc('month', greatest((select coalesce(min(occurred_at), now()) from audit.unchained_event),
        now() - interval '5 years') at time zone 'UTC'),
      date_trunc('month', now() at time zone 'UTC') + interval '3 months', '1 month') as month`);
    for (const statement of keepUnchained) this.addSql(statement);
  }
}
