import type { RotationPolicyJson } from "../report-json.ts";
import { activeCertificates, lifetimeDays } from "./active-certificates.ts";
import { days, nothingRequired, type Rules } from "./rule.ts";
import { checkSelected, daysInWords } from "./selected.ts";

/** Secrets that are in use: archived, deleted and expired ones do not count. */
const activeSecrets = `secret s where s.organization_id = $1 and s.status = 'active'
  and (s.expires_at is null or s.expires_at > now())`;

/** The interval of a secret that is rotated by itself, and of any other how old its value is (G-14.2). */
const secretsOlderThan = `
  select 'secret' as resource_type, s.id::text as resource_id, s.key as name,
    case when s.interval_days is not null then 'rotated every ' || ${daysInWords("s.interval_days")}
      when age.days > $2::int then ${daysInWords("age.days")}
      else 'more than ' || ${daysInWords("age.days")} end as actual,
    case when s.interval_days is not null then s.interval_days > $2::int else age.seconds > $2::int::float8 * 86400 end as violates
  from (
    select s.id, s.key, s.version, case when s.rotation_enabled then s.rotation_interval_days end as interval_days
    from ${activeSecrets}) s
  join secret_version v on v.secret_id = s.id and v.version = s.version and v.organization_id = $1
  cross join lateral (select date_part('epoch', now() - v.created_at) as seconds,
    floor(date_part('epoch', now() - v.created_at) / 86400) as days) age`;

/** What is required of rotation. */
export const rotationPolicy: Rules<RotationPolicyJson> = {
  max_secret_rotation_days: (most, evidence) =>
    checkSelected(evidence, {
      select: secretsOlderThan,
      values: [most],
      things: "secrets",
      fault: `exceed ${days(most)}`,
    }),

  max_cert_rotation_days: (most, evidence) =>
    checkSelected(evidence, {
      select: `select c.resource_type, c.resource_id, c.name, ${daysInWords(lifetimeDays)} as actual,
        ${lifetimeDays} > $2::int as violates from (${activeCertificates}) c`,
      values: [most],
      things: "certificates",
      fault: `are in use for more than ${days(most)}`,
    }),

  require_rotation_enabled: (required, evidence) => {
    if (!required) return nothingRequired();
    return checkSelected(evidence, {
      select: `select 'secret' as resource_type, s.id::text as resource_id, s.key as name, 'rotation is off' as actual,
        not s.rotation_enabled as violates from ${activeSecrets}`,
      things: "secrets",
      fault: "are not rotated by themselves",
    });
  },
};
