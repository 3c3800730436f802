import { type AuditEvent, type AuditWriter, systemEvent } from "../audit/audit-writer.ts";
import type { Core } from "../context.ts";
import { millis } from "../db/columns.ts";
import { type EntityManager, run } from "../db/database.ts";
import { asSystem, type Job } from "../jobs.ts";
import { type CertificateFields, isRevoked, nameOf } from "./certificate-record.ts";
import { noticeDays } from "./lifetimes.ts";

const batchSize = 1000;

interface Expiring
  extends Pick<
    CertificateFields,
    "id" | "organizationId" | "projectId" | "subject" | "alternativeNames" | "serialNumber"
  > {
  readonly notAfter: number;
  /** Of the notices, the last one whose time has come. */
  readonly days: number;
  /** Whether it still matters: it is neither over nor revoked. */
  readonly matters: boolean;
}

/** SQL for when notice of certificate `c` is given `days` before its end. A day is 24 hours, whatever the time zone. */
const noticeTime = "c.not_after - make_interval(hours => 24 * days)";

const takeDue = `with due as (
    select id from certificate where expiring_at <= now() order by expiring_at limit $1 for no key update skip locked)
  update certificate c
  set expiring_at = (select min(${noticeTime}) from unnest($2::int[]) as days where ${noticeTime} > now())
  from due where c.id = due.id
  returning c.id, c.organization_id as "organizationId", c.project_id as "projectId", c.subject,
    c.subject_alternative_names as "alternativeNames", c.serial_number as "serialNumber",
    ${millis("c.not_after")} as "notAfter",
    (select min(days) from unnest($2::int[]) as days where ${noticeTime} <= now()) as days,
    c.not_after > now() and not ${isRevoked} as matters`;

/**
 * Tells in the audit log, 30, 7 and 1 days beforehand, that certificates end. Of notices that nobody gave in time only the
 * last one is given; those that were renewed or revoked have none to come.
 */
export function expiringJob({ db, audit, logger }: Pick<Core, "audit" | "db" | "logger">): Job {
  return {
    name: "certificate.expiring",
    schedule: "* * * * *",
    async run() {
      let told = 0;
      for (let batch = batchSize; batch === batchSize; told += batch)
        batch = await asSystem(db, (em) => tellDue(em, audit));
      if (told > 0) logger.info({ certificates: told }, "certificates expire soon");
    },
  };
}

async function tellDue(em: EntityManager, audit: AuditWriter): Promise<number> {
  const due = await run<Expiring>(em, takeDue, [batchSize, noticeDays]);
  await audit.record(em, due.filter(({ matters }) => matters).map(eventOf));
  return due.length;
}

const eventOf = (certificate: Expiring): AuditEvent =>
  systemEvent({
    organizationId: certificate.organizationId,
    action: "certificate.expiring",
    resourceType: "certificate",
    resourceId: certificate.id,
    resourceName: nameOf(certificate),
    projectId: certificate.projectId,
    details: {
      days: certificate.days,
      serial_number: certificate.serialNumber,
      not_after: new Date(Math.round(certificate.notAfter)).toISOString(),
    },
  });
