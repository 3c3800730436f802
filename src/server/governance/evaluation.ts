import type { JsonValue } from "@bufbuild/protobuf";
import type { Queries } from "../db/database.ts";
import type { Facts } from "./facts.ts";
import { readOwnPolicies } from "./own-policies.ts";
import type { EvaluationJson, ReportJson, ResultJson, SummaryJson } from "./report-json.ts";
import { certificatePolicy } from "./rules/certificate-policy.ts";
import { encryptionPolicy } from "./rules/encryption-policy.ts";
import { mfaPolicy } from "./rules/mfa-policy.ts";
import { namingPolicy } from "./rules/naming-policy.ts";
import { passwordPolicy } from "./rules/password-policy.ts";
import { rotationPolicy } from "./rules/rotation-policy.ts";
import type { Evidence, Rules } from "./rules/rule.ts";
import { sessionPolicy } from "./rules/session-policy.ts";

const groups: { readonly [Group in keyof ReportJson]-?: Rules<NonNullable<ReportJson[Group]>> } = {
  password_policy: passwordPolicy,
  certificate_policy: certificatePolicy,
  rotation_policy: rotationPolicy,
  naming_policy: namingPolicy,
  mfa_policy: mfaPolicy,
  session_policy: sessionPolicy,
  encryption_policy: encryptionPolicy,
};

/**
 * Compares a report with the organization as it is now (gaps 14): one result for each field that the report mentions, in
 * the order of the specification. Reads only. Names are matched for some seconds of processor time at most; a rule that
 * would take longer is not evaluated.
 */
export async function evaluate(
  queries: Queries,
  organizationId: string,
  report: ReportJson,
  facts: Facts,
): Promise<EvaluationJson> {
  const organization = await readOwnPolicies(queries, organizationId);
  const evidence = { queries, facts, organization };
  const results: ResultJson[] = [];
  for (const group of Object.keys(groups) as (keyof ReportJson)[]) {
    const required = report[group];
    if (required !== undefined) results.push(...(await evaluateGroup(group, required, evidence)));
  }
  const summary = summaryOf(results);
  return { status: statusOf(summary), evaluated_at: organization.readAt.toISOString(), summary, results };
}

/** One rule after the other, for which one connection is enough. */
async function evaluateGroup(name: keyof ReportJson, group: object, evidence: Evidence): Promise<ResultJson[]> {
  const results: ResultJson[] = [];
  // Which of the groups it is does not matter from here on.
  for (const [field, check] of Object.entries(groups[name] as Rules<Record<string, JsonValue>>)) {
    const required = (group as Record<string, JsonValue | undefined>)[field];
    if (required === undefined || required === null) continue;
    const outcome = await check(required, evidence, group as Record<string, JsonValue>);
    results.push({ rule: `${name}.${field}`, required, ...outcome });
  }
  return results;
}

function summaryOf(results: readonly ResultJson[]): SummaryJson {
  const count = (status: ResultJson["status"]) => results.filter((result) => result.status === status).length;
  return {
    rules: results.length,
    passed: count("passed"),
    failed: count("failed"),
    not_applicable: count("not_applicable"),
    not_evaluated: count("not_evaluated"),
  };
}

function statusOf({ failed, not_evaluated: unknown }: SummaryJson): EvaluationJson["status"] {
  if (failed > 0) return "non_compliant";
  return unknown > 0 ? "partially_evaluated" : "compliant";
}
