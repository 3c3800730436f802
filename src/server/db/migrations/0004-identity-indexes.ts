import { Migration } from "@mikro-orm/migrations";

export class Migration0004 extends Migration {
  override up(): void {
    this.addSql(`alter table "api_token" add "parent_id" uuid null`);
    this.addSql(`create index "api_token_parent_id_index" on "api_token" ("parent_id")`);
    this.addSql(`create index "api_token_expires_at_index" on "api_token" ("expires_at")`);
    this.addSql(`create index "api_token_revoked_at_index" on "api_token" ("revoked_at") where revoked_at is not null`);
    this.addSql(`create unique index "organization_instance_key" on "organization" ("instance") where instance`);
    this.addSql(
      `create index "user_account_organization_id_status_index" on "user_account" ("organization_id", "status", "username")`,
    );
  }
}
