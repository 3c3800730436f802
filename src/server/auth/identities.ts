import type { Queries } from "../db/database.ts";
import type { Identity } from "../wire/identity.ts";
import { addressCheck } from "./allowed-addresses.ts";
import { permissionsOf } from "./roles.ts";

interface Row {
  readonly id: string;
  readonly type: "user" | "machine_identity";
  readonly organization_id: string;
  readonly name: string;
  readonly status: string;
  readonly allowed_ips: string[];
  readonly rate_limit_per_minute: number | null;
  readonly credential_version: number;
  readonly surviving_credential: string | null;
  readonly instance: boolean;
  readonly bindings: {
    readonly role: string;
    readonly project_id: string | null;
    /** Null for a built-in role. */
    readonly permissions: string[] | null;
  }[];
}

/** A user or a machine identity, with what its roles give at this moment. */
export interface Holder extends Identity {
  readonly active: boolean;
  /** The one login or session that goes on although it carries another number. */
  readonly survivingCredential: string | undefined;
}

const selectIdentity = `select i.*, o.instance,
    coalesce((select json_agg(json_build_object('role', b.role, 'project_id', b.project_id, 'permissions', r.permissions))
              from role_binding b left join role r on r.organization_id = b.organization_id and r.name = b.role
              where b.identity_id = i.id), '[]') as bindings
  from (
    select id, organization_id, 'machine_identity' as type, name, status, allowed_ips, rate_limit_per_minute,
      credential_version, null::uuid as surviving_credential from machine_identity where id = $1
    union all
    select id, organization_id, 'user', username, status, '{}', rate_limit_per_minute, credential_version,
      surviving_credential from user_account where id = $1
  ) i join organization o on o.id = i.organization_id`;

/** What an identity holds at this moment; undefined when there is none of this id. */
export async function readHolder(queries: Queries, id: string): Promise<Holder | undefined> {
  const [row] = await queries.query<Row>(selectIdentity, [id]);
  return row === undefined ? undefined : holderOf(row);
}

function holderOf(row: Row): Holder {
  const roles = new Set<string>();
  const permissions = new Set<string>();
  const projectPermissions = new Map<string, Set<string>>();
  for (const { role, project_id: projectId, permissions: own } of row.bindings) {
    const given = own ?? permissionsOf(role) ?? [];
    if (projectId === null) {
      roles.add(role);
      for (const permission of given) permissions.add(permission);
    } else {
      const held = projectPermissions.get(projectId) ?? new Set();
      for (const permission of given) held.add(permission);
      projectPermissions.set(projectId, held);
    }
  }
  return {
    id: row.id,
    type: row.type,
    name: row.name,
    organizationId: row.organization_id,
    ofInstance: row.instance,
    active: row.status === "active",
    credentialVersion: row.credential_version,
    survivingCredential: row.surviving_credential ?? undefined,
    roles,
    permissions,
    projectPermissions,
    rateLimitPerMinute: row.rate_limit_per_minute ?? undefined,
    credential: undefined,
    admits: addressCheck(row.allowed_ips),
  };
}
