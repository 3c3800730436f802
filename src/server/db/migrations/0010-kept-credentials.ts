import { Migration } from "@mikro-orm/migrations";

export class Migration0010 extends Migration {
  override up(): void {
    // What was kept before may show one, and is gone within a day.
    this.addSql(`alter table "idempotency_record" add "shows_credential" boolean not null default false`);
    this.addSql(
      `create index "idempotency_record_credential_index" on "idempotency_record" ("created_at") where shows_credential`,
    );
  }
}
