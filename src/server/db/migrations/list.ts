import type { MigrationObject } from "@mikro-orm/core";
import { Migration0001 } from "./0001-initial.ts";
import { Migration0002 } from "./0002-identities.ts";
import { Migration0003 } from "./0003-audit-chain.ts";
import { Migration0004 } from "./0004-identity-indexes.ts";
import { Migration0005 } from "./0005-keytabs-and-agents.ts";
import { Migration0006 } from "./0006-gateways.ts";
import { Migration0007 } from "./0007-rotation-and-links.ts";
import { Migration0008 } from "./0008-certificates-and-governance.ts";
import { Migration0009 } from "./0009-revocation-lists.ts";
import { Migration0010 } from "./0010-kept-credentials.ts";

/** Every migration, oldest first; a migration that has been released is never edited. */
export const migrations: MigrationObject[] = [
  { name: "0001-initial", class: Migration0001 },
  { name: "0002-identities", class: Migration0002 },
  { name: "0003-audit-chain", class: Migration0003 },
  { name: "0004-identity-indexes", class: Migration0004 },
  { name: "0005-keytabs-and-agents", class: Migration0005 },
  { name: "0006-gateways", class: Migration0006 },
  { name: "0007-rotation-and-links", class: Migration0007 },
  { name: "0008-certificates-and-governance", class: Migration0008 },
  { name: "0009-revocation-lists", class: Migration0009 },
  { name: "0010-kept-credentials", class: Migration0010 },
];
