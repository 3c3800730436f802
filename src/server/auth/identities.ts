import { BlockList, isIP } from "node:net";
import { LRUCache } from "lru-cache";
import { addNetwork } from "../config.ts";
import type { Database, Queries } from "../db/database.ts";
import { authInvalid } from "../errors.ts";
import type { Identity } from "../wire/identity.ts";
import type { AccessTokens } from "./access-tokens.ts";
import { permissionsOf } from "./roles.ts";

const cacheMs = 5000;

interface Row {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly status: string;
  readonly allowed_ips: string[];
  readonly rate_limit_per_minute: number | null;
  readonly instance: boolean;
  readonly bindings: { readonly role: string; readonly project_id: string | null }[];
}

const selectIdentity = `select m.id, m.organization_id, m.name, m.status, m.allowed_ips, m.rate_limit_per_minute, o.instance,
    coalesce((select json_agg(json_build_object('role', b.role, 'project_id', b.project_id))
              from role_binding b where b.identity_id = m.id), '[]') as bindings
  from machine_identity m join organization o on o.id = m.organization_id`;

/** Who the identities are and what they hold, remembered for at most five seconds (G-9.5). */
export class Identities {
  readonly #db: Database;
  readonly #tokens: AccessTokens;
  readonly #cache = new LRUCache<string, Promise<Identity | undefined>>({ max: 10_000, ttl: cacheMs });

  constructor(db: Database, tokens: AccessTokens) {
    this.#db = db;
    this.#tokens = tokens;
  }

  /** Throws AUTH_EXPIRED, or AUTH_INVALID also when the identity was disabled or removed. */
  async authenticate(token: string): Promise<Identity> {
    const { sub } = await this.#tokens.verify(token);
    const identity = await (this.#cache.get(sub) ?? this.#remember(sub));
    if (identity === undefined) throw authInvalid();
    return identity;
  }

  /** Callers at once share one read; what was not found, or could not be read, is not remembered. */
  #remember(id: string): Promise<Identity | undefined> {
    const reading = this.#readActive(id);
    const drop = () => void (this.#cache.peek(id) === reading && this.#cache.delete(id));
    reading.then((identity) => identity ?? drop(), drop);
    this.#cache.set(id, reading);
    return reading;
  }

  async #readActive(id: string): Promise<Identity | undefined> {
    const [row] = await this.#db.query<Row>(`${selectIdentity} where m.id = $1 and m.status = 'active'`, [id]);
    return row === undefined ? undefined : identityOf(row);
  }

  /** What an identity holds at this moment, not remembered. */
  async read(queries: Queries, id: string): Promise<Identity | undefined> {
    const [row] = await queries.query<Row>(`${selectIdentity} where m.id = $1`, [id]);
    return row === undefined ? undefined : identityOf(row);
  }

  /** The next call of this identity sees what it holds now. */
  forget(id: string): void {
    this.#cache.delete(id);
  }
}

function identityOf(row: Row): Identity {
  const atOrganization = row.bindings.filter(({ project_id }) => project_id === null).map(({ role }) => role);
  const projectPermissions = new Map<string, Set<string>>();
  for (const { role, project_id: projectId } of row.bindings) {
    if (projectId === null) continue;
    const held = projectPermissions.get(projectId) ?? new Set();
    for (const permission of permissionsOf(role) ?? []) held.add(permission);
    projectPermissions.set(projectId, held);
  }
  return {
    id: row.id,
    type: "machine_identity",
    name: row.name,
    organizationId: row.organization_id,
    ofInstance: row.instance,
    roles: new Set(atOrganization),
    permissions: new Set(atOrganization.flatMap((role) => permissionsOf(role) ?? [])),
    projectPermissions,
    rateLimitPerMinute: row.rate_limit_per_minute ?? undefined,
    admits: addressCheck(row.allowed_ips),
  };
}

/** Whether an address is among `allowedIps`; an empty list allows all. */
export function addressCheck(allowedIps: readonly string[]): (address: string) => boolean {
  if (allowedIps.length === 0) return () => true;
  const networks = new BlockList();
  for (const each of allowedIps) addNetwork(networks, each);
  return (address) => isIP(address) !== 0 && networks.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}
