import { type AuditEvent, systemEvent } from "../audit/audit-writer.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { toRefusal } from "../errors.ts";
import { asSystem, type Job } from "../jobs.ts";
import { inSystemWork } from "../system-work.ts";
import { type OpenAuthority, openAuthority } from "./authority-key.ts";
import { type CertificateFields, nameOf } from "./certificate-record.ts";
import { readCertificate } from "./find-certificate.ts";
import { renewalDetails, requireRenewable, signSuccessor, storeSuccessor } from "./renew-certificate.ts";

type RenewalCore = Pick<Core, "audit" | "config" | "db" | "logger" | "seal" | "statusUrl">;

/** Of the connections to the database, those that renewals may use at a time: one in so many. */
const shareOfPool = 4;
const batchSize = 100;
/** A run begins nothing more after that; the next one, a minute later, goes on. */
const longestRunMs = 4 * 60_000;
/** How long to wait after a failure: as long as the renewal has been due, but within these bounds. */
const pauses = { shortestSeconds: 60, longestSeconds: 3600 };

/** A certificate whose successor is due. */
interface Due {
  readonly id: string;
  readonly organizationId: string;
  /** As the database writes it. */
  readonly renewAt: string;
}

/** Why a certificate is not renewed. */
interface Obstacle {
  readonly message: string;
  /** Whether it stays: then nobody tries again. */
  readonly isFinal: boolean;
}

/** Issues the successors of certificates that are to be renewed by themselves. */
export function renewalJob(core: RenewalCore): Job {
  return {
    name: "certificate.renew",
    schedule: "* * * * *",
    async run() {
      const renewed = await renewDue(core);
      if (renewed > 0) core.logger.info({ certificates: renewed }, "certificates renewed");
    },
  };
}

const selectDue = `select id, organization_id as "organizationId", renew_at as "renewAt" from certificate
  where renew_at <= now() and (renew_at, id) > ($1, $2) order by renew_at, id limit $3`;

/** Each certificate is a transaction of its own: one that cannot be renewed keeps no other from it. */
async function renewDue(core: RenewalCore): Promise<number> {
  const end = performance.now() + longestRunMs;
  let renewed = 0;
  let after: Pick<Due, "id" | "renewAt"> = { renewAt: "-infinity", id: "00000000-0000-0000-0000-000000000000" };
  for (let seen = batchSize; seen === batchSize && performance.now() < end; ) {
    const batch = await core.db.query<Due>(selectDue, [after.renewAt, after.id, batchSize]);
    const waiting = batch.values();
    const renewOneByOne = async () => {
      for (const due of waiting) if (await renew(core, due)) renewed += 1;
    };
    const atOnce = Math.max(1, Math.floor(core.config.DATABASE_POOL_SIZE / shareOfPool));
    await Promise.all(Array.from({ length: atOnce }, renewOneByOne));
    after = batch.at(-1) ?? after;
    seen = batch.length;
  }
  return renewed;
}

/** Answers whether the certificate has a successor now that it did not have before. */
async function renew(core: RenewalCore, due: Due): Promise<boolean> {
  const about = { certificate_id: due.id };
  try {
    const outcome = await tryToRenew(core, due);
    if (typeof outcome === "boolean") return outcome;
    core.logger.warn({ ...about, reason: outcome.message }, "a certificate could not be renewed");
    await noteFailed(core, due, outcome);
  } catch (err) {
    core.logger.warn({ ...about, err }, "a certificate that is due could not be renewed and will be tried again");
  }
  return false;
}

/** Throws only what the next run may well not meet again. */
async function tryToRenew(core: RenewalCore, due: Due): Promise<Obstacle | boolean> {
  const { id, organizationId } = due;
  try {
    const certificate = await readCertificate(core.db, organizationId, id);
    if (certificate === undefined) return false;
    const authority = await openAuthority(core.db, core.seal, organizationId, certificate.caId);
    if (authority === undefined) throw new Error(`certificate ${id} has no authority`);
    return obstacleTo(certificate, authority) ?? (await issueSuccessor(core, due, certificate, authority));
  } catch (err) {
    const { errorCode, message, faults } = toRefusal(err);
    if (errorCode === "SERVICE_UNAVAILABLE") throw err;
    if (errorCode !== "INTERNAL_ERROR") {
      return { message: faults[0]?.message ?? message, isFinal: errorCode === "VALIDATION_ERROR" };
    }
    core.logger.error({ err, certificate_id: id }, "a certificate cannot be renewed");
    return { message: "what it takes cannot be read", isFinal: false };
  }
}

function obstacleTo(certificate: CertificateFields, authority: OpenAuthority): Obstacle | undefined {
  const { status } = authority;
  if (status !== "active") return { message: `the certificate authority is ${status}`, isFinal: status !== "disabled" };
  if (authority.notAfter.getTime() > certificate.notAfter) return undefined;
  return { message: "the certificate authority ends no later than the certificate", isFinal: true };
}

/** Somebody else may have come first, or be at it at this moment. */
const lockDue = `select 1 from certificate
  where id = $1 and organization_id = $2 and renew_at = $3 for no key update skip locked`;

/** What is signed here is issued when the certificate is still due once it is locked. */
async function issueSuccessor(
  core: RenewalCore,
  { id, organizationId, renewAt }: Due,
  seen: CertificateFields,
  authority: OpenAuthority,
): Promise<boolean> {
  const now = new Date();
  const signed = await signSuccessor(core, authority, seen, {}, now);
  return inSystemWork(core, organizationId, async (work) => {
    const locked = await work.query(lockDue, [id, organizationId, renewAt]);
    if (locked.length === 0) return false;
    const certificate = await readCertificate(work, organizationId, id);
    if (certificate === undefined) return false;
    requireRenewable(certificate);
    const { projectId } = certificate;
    const successor = await storeSuccessor({ query: work.query, now }, certificate, signed, "system");
    work.alsoRecord("certificate.renew", {
      id,
      name: nameOf(certificate),
      ...(projectId !== null && { projectId }),
      details: renewalDetails(successor),
    });
    return true;
  });
}

interface Failed extends Pick<CertificateFields, "alternativeNames" | "caId" | "projectId" | "subject"> {
  readonly isFirst: boolean;
  readonly isGivenUp: boolean;
}

/** SQL for when the successor of certificate `c` was due at first. */
const dueTime = "c.not_after - (c.not_after - c.not_before) / 3";

/** Nobody tries any more once the certificate is over. */
const postpone = `update certificate c
  set renew_at = case when $4 or c.not_after <= now() then null
    else now() + greatest(least(now() - (${dueTime}), make_interval(secs => $5)), make_interval(secs => $6)) end
  where c.id = $1 and c.organization_id = $2 and c.renew_at = $3
  returning c.ca_id as "caId", c.project_id as "projectId", c.subject,
    c.subject_alternative_names as "alternativeNames", c.renew_at is null as "isGivenUp",
    $3::timestamptz < ${dueTime} + make_interval(secs => 1) as "isFirst"`;

/** Has it tried again later, and tells in the audit log of the first failure, and of giving up. */
async function noteFailed({ audit, db }: RenewalCore, due: Due, { message, isFinal }: Obstacle): Promise<void> {
  const { id, organizationId, renewAt } = due;
  const values = [id, organizationId, renewAt, isFinal, pauses.longestSeconds, pauses.shortestSeconds];
  await asSystem(db, async (em) => {
    const [failed] = await run<Failed>(em, postpone, values);
    if (failed === undefined || !(failed.isFirst || failed.isGivenUp)) return;
    await audit.record(em, [eventOf(due, failed, message)]);
  });
}

const eventOf = ({ id, organizationId }: Due, failed: Failed, reason: string): AuditEvent =>
  systemEvent({
    organizationId,
    action: "certificate.renew",
    outcome: "failure",
    resourceType: "certificate",
    resourceId: id,
    resourceName: nameOf(failed),
    projectId: failed.projectId,
    reason,
    details: { ca_id: failed.caId, given_up: failed.isGivenUp },
  });
