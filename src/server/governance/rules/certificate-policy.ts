import type { CertificatePolicyJson } from "../report-json.ts";
import { activeAuthorities, activeCertificates, lifetimeDays } from "./active-certificates.ts";
import { contradiction, days, type Evidence, nothingRequired, type Outcome, type Rules } from "./rule.ts";
import { checkSelected, daysInWords } from "./selected.ts";

/** Keys of certificates and of authorities. */
const activeKeys = `select resource_type, resource_id, name, key_algorithm, key_size from (${activeCertificates}) c
  union all ${activeAuthorities}`;

function checkKeySize(evidence: Evidence, algorithm: "ECDSA" | "RSA", leastBits: number): Promise<Outcome> {
  return checkSelected(evidence, {
    select: `select resource_type, resource_id, name, key_size || ' bits' as actual, key_size < $3::int as violates
      from (${activeKeys}) k where key_algorithm = $2`,
    values: [algorithm, leastBits],
    things: `${algorithm} keys`,
    fault: `have fewer than ${leastBits} bits`,
  });
}

/** The lifetime of certificates. That of authorities is not meant: a root outlives whatever it issues. */
function checkLifetime(evidence: Evidence, violates: string, bound: number, fault: string): Promise<Outcome> {
  return checkSelected(evidence, {
    select: `select c.resource_type, c.resource_id, c.name, ${daysInWords(lifetimeDays)} as actual,
      ${lifetimeDays} ${violates} $2::int as violates from (${activeCertificates}) c`,
    values: [bound],
    things: "certificates",
    fault,
  });
}

const contradictory = ({ min_validity_days: least, max_validity_days: most }: CertificatePolicyJson) =>
  contradiction(["min_validity_days", least], ["max_validity_days", most]);

/** What is required of certificates and their authorities, as far as they are neither revoked nor expired. */
export const certificatePolicy: Rules<CertificatePolicyJson> = {
  min_key_size_rsa: (bits, evidence) => checkKeySize(evidence, "RSA", bits),
  min_key_size_ecdsa: (bits, evidence) => checkKeySize(evidence, "ECDSA", bits),

  // An empty list allows none.
  allowed_algorithms: (allowed, evidence) =>
    checkSelected(evidence, {
      select: `select resource_type, resource_id, name, key_algorithm as actual,
        key_algorithm <> all ($2::text[]) as violates from (${activeKeys}) k`,
      values: [allowed],
      things: "keys",
      fault: allowed.length === 0 ? "are there, and no algorithm is allowed" : `are not ${allowed.join(" or ")}`,
    }),

  max_validity_days: (most, evidence, group) =>
    contradictory(group) ?? checkLifetime(evidence, ">", most, `are valid for more than ${days(most)}`),
  min_validity_days: (least, evidence, group) =>
    contradictory(group) ?? checkLifetime(evidence, "<", least, `are valid for less than ${days(least)}`),

  require_auto_renewal: (required, evidence) => {
    if (!required) return nothingRequired();
    // One that was renewed is not renewed again.
    return checkSelected(evidence, {
      select: `select c.resource_type, c.resource_id, c.name, 'renewal is off' as actual, not c.auto_renew as violates
        from (${activeCertificates}) c where c.renewed_by is null`,
      things: "certificates",
      fault: "are not renewed by themselves",
    });
  },
};
