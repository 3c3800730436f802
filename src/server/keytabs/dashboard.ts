import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  CipherCountSchema,
  ExpiringKeytabSchema,
  KeytabDashboardSchema,
  KeytabFindingsSchema,
  KeytabOverviewSchema,
} from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Queries } from "../db/database.ts";
import { timestampOf } from "../db/timestamp.ts";
import { isKvnoBehindAmongAll, isSharedKeyAmongAll } from "./findings.ts";
import { keytabId, lifecycle } from "./keytab-record.ts";

type KeytabsCounted = MessageInitShape<typeof KeytabOverviewSchema> & {
  cipherDistribution: MessageInitShape<typeof CipherCountSchema>[];
};
type Expiring = MessageInitShape<typeof ExpiringKeytabSchema>;
type Findings = MessageInitShape<typeof KeytabFindingsSchema>;

const mostExpiring = 50;

/** What an organization has at this moment, and what was found on its hosts (G-6.17). */
export async function readDashboard(
  queries: Queries,
  organizationId: string,
  expiringDays: number,
): Promise<MessageInitShape<typeof KeytabDashboardSchema>> {
  const [keytabs, expiringKeytabs, findings, kvnoBehind] = await Promise.all([
    countKeytabs(queries, organizationId, expiringDays),
    listExpiring(queries, organizationId, expiringDays),
    countFindings(queries, organizationId),
    countBehind(queries, organizationId),
  ]);
  return { ...keytabs, expiringKeytabs, findings: { ...findings, kvnoBehind } };
}

const expiresSoon =
  "k.status = 'active' and k.expires_at > now() and k.expires_at <= now() + make_interval(days => $2)";

/** One pass over the keytabs, of which many are alike in what is counted. */
const keytabsCounted = `with alike as materialized (
    select k.encryption_types, k.cipher_compliance, ${lifecycle} as lifecycle, coalesce(${expiresSoon}, false) as soon,
      count(*)::int as keytabs
    from keytab k where k.organization_id = $1 and k.deleted_at is null group by 1, 2, 3, 4),
  held as (select cipher, sum(keytabs)::int as count from alike, unnest(encryption_types) as cipher group by cipher)
  select coalesce(sum(keytabs), 0)::int as total,
    coalesce(sum(keytabs) filter (where lifecycle = 'active'), 0)::int as active,
    coalesce(sum(keytabs) filter (where soon), 0)::int as "expiringSoon",
    coalesce(sum(keytabs) filter (where lifecycle = 'expired'), 0)::int as expired,
    coalesce(sum(keytabs) filter (where lifecycle = 'disabled'), 0)::int as disabled,
    coalesce(sum(keytabs) filter (where cipher_compliance = 'non_compliant'), 0)::int as "nonCompliant",
    coalesce(sum(keytabs) filter (where cipher_compliance = 'warning'), 0)::int as warning,
    (select coalesce(json_agg(held order by count desc, cipher), '[]') from held) as "cipherDistribution"
  from alike`;

async function countKeytabs(queries: Queries, organizationId: string, expiringDays: number) {
  const [counted] = await queries.query<KeytabsCounted>(keytabsCounted, [organizationId, expiringDays]);
  const { cipherDistribution, ...overview } = counted as KeytabsCounted;
  return { overview, cipherDistribution };
}

interface ExpiringRow {
  readonly id: string;
  readonly name: string;
  readonly principal: string;
  readonly expiresAt: string;
  readonly daysRemaining: number;
}

async function listExpiring(queries: Queries, organizationId: string, expiringDays: number): Promise<Expiring[]> {
  const rows = await queries.query<ExpiringRow>(
    `select k.id, k.name, k.principal, k.expires_at as "expiresAt",
       ceil(extract(epoch from k.expires_at - now()) / 86400)::int as "daysRemaining"
     from keytab k where k.organization_id = $1 and k.deleted_at is null and ${expiresSoon}
     order by k.expires_at, k.id limit ${mostExpiring}`,
    [organizationId, expiringDays],
  );
  return rows.map((row) => ({ ...row, id: keytabId(row.id), expiresAt: timestampOf(row.expiresAt) }));
}

const onHosts = "from discovered_keytab f where f.organization_id = $1 and not f.stale";

async function countFindings(queries: Queries, organizationId: string): Promise<Findings> {
  const [counted] = await queries.query<Findings>(
    `select count(*) filter (where 'world_readable' = any(f.findings))::int as "worldReadable",
       count(*) filter (where 'group_readable' = any(f.findings))::int as "groupReadable",
       count(*) filter (where 'wrong_owner' = any(f.findings))::int as "wrongOwner",
       count(*) filter (where 'old_kvnos' = any(f.findings))::int as "oldKvnos",
       (select count(*)::int ${onHosts} and ${isSharedKeyAmongAll("f", "$1")}) as "sharedKey"
     ${onHosts}`,
    [organizationId],
  );
  return counted as Findings;
}

/** The dearest count of all, beside the others and not after them. */
async function countBehind(queries: Queries, organizationId: string): Promise<number> {
  const [counted] = await queries.query<{ files: number }>(
    `select count(*)::int as files ${onHosts} and ${isKvnoBehindAmongAll("f", "$1")}`,
    [organizationId],
  );
  return counted?.files ?? 0;
}
