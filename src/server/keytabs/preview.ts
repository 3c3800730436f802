import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  CipherPolicyPreviewSchema,
  PreviewTotalsSchema,
} from "../../../gen/ts/holdfast/keytabs/v1/cipher_policy_service_pb.ts";
import { type Compliance, type PolicyTerms, rulesOf, verdictOf } from "../../standards/cipher-policy.ts";
import type { Queries } from "../db/database.ts";
import { readRules } from "./cipher-policies.ts";
import { keytabId } from "./keytab-record.ts";
import { verdictSql } from "./verdict-sql.ts";

interface Changing {
  readonly id: string;
  readonly principal: string;
  readonly encryptionTypes: string[];
}

interface ChangingKeytab extends Changing {
  readonly name: string;
  readonly from: Compliance;
}

interface ChangingFile extends Changing {
  readonly agentId: string;
  readonly hostname: string;
  readonly filePath: string;
}

interface Tried {
  readonly keytabs: ChangingKeytab[];
  readonly files: ChangingFile[];
  readonly principals: string[];
  readonly totals: MessageInitShape<typeof PreviewTotalsSchema>;
}

/**
 * One statement, so that lists and totals are of one moment. A keytab has the verdict of its last check; a file on a
 * host has none but that of the policy of the moment, which is in $4 and $5.
 */
const tryPolicy = `with keytabs as materialized (
    select id, name, principal, encryption_types as "encryptionTypes", cipher_compliance as "from"
    from keytab where organization_id = $1 and deleted_at is null
      and ${verdictSql("encryption_types", "$2::text[]", "$3::text[]")} <> cipher_compliance),
  files as materialized (
    select id, agent_id as "agentId", file_path as "filePath", principal, encryption_types as "encryptionTypes"
    from discovered_keytab where organization_id = $1 and not stale
      and ${verdictSql("encryption_types", "$2", "$3")} <> ${verdictSql("encryption_types", "$4::text[]", "$5::text[]")}),
  principals as materialized (select principal from keytabs union select principal from files)
  select json_build_object(
      'keytabs', (select count(*) from keytab where organization_id = $1 and deleted_at is null),
      'changedKeytabs', (select count(*) from keytabs),
      'files', (select count(*) from discovered_keytab where organization_id = $1 and not stale),
      'changedFiles', (select count(*) from files),
      'changedPrincipals', (select count(*) from principals)) as totals,
    (select coalesce(json_agg(listed), '[]')
     from (select * from keytabs order by name, id limit $6) listed) as keytabs,
    (select coalesce(json_agg(listed), '[]')
     from (select files.*, agent.hostname
           from files join agent on agent.id = files."agentId" and agent.organization_id = $1
           order by agent.hostname, files."filePath", files.id limit $6) listed) as files,
    array(select principal from principals order by principal limit $6) as principals`;

/** Which verdicts a policy would change: of keytabs, and of files that agents see. Each list holds `limit` at most. */
export async function previewPolicy(
  queries: Queries,
  organizationId: string,
  terms: PolicyTerms,
  limit = 100,
): Promise<MessageInitShape<typeof CipherPolicyPreviewSchema>> {
  const current = await readRules(queries, organizationId);
  const tried = rulesOf(terms);
  const [found] = await queries.query<Tried>(tryPolicy, [
    organizationId,
    [...tried.allowed],
    [...tried.deprecated],
    [...current.allowed],
    [...current.deprecated],
    limit,
  ]);
  const { totals, principals, keytabs, files } = found as Tried;
  return {
    totals,
    principals,
    keytabs: keytabs.map(({ id, encryptionTypes, ...keytab }) => {
      const { compliance: to, violations: cipherViolations } = verdictOf(encryptionTypes, tried);
      return { ...keytab, id: keytabId(id), to, cipherViolations };
    }),
    files: files.map(({ encryptionTypes, ...file }) => {
      const { compliance: to, violations: cipherViolations } = verdictOf(encryptionTypes, tried);
      return { ...file, from: verdictOf(encryptionTypes, current).compliance, to, cipherViolations };
    }),
  };
}
