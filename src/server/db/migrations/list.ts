import type { MigrationObject } from "@mikro-orm/core";
import { Migration0001 } from "./0001-initial.ts";

/** Every migration, oldest first; a migration that has been released is never edited. */
export const migrations: MigrationObject[] = [{ name: "0001-initial", class: Migration0001 }];
