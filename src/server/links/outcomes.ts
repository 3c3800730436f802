import type { TargetError } from "../../targets/target-error.ts";
import type { Core } from "../context.ts";
import { run } from "../db/database.ts";
import { asSystem } from "../jobs.ts";
import { pauseMs } from "./back-off.ts";
import type { DueLink } from "./claims.ts";
import { syncEvent } from "./sync-event.ts";

type Tools = Pick<Core, "db" | "audit">;

/** A claim may have missed the version that was made at that very moment, and nothing says so but the number. */
const isOutdated = "(select s.version <> secret_link.claimed_version from secret s where s.id = secret_link.secret_id)";

/**
 * How an attempt ends that was claimed, whatever has happened to the link meanwhile: it may be disabled by now, or asked to
 * be written again. A claim that has passed to somebody else changes nothing; the attempt is recorded all the same.
 */
const ending = (status: string, dueAt: string, more = ""): string =>
  `update secret_link set ${more} claim_id = null, claimed_version = null, again = false,
     status = case when status = 'disabled' then 'disabled' when again or ${isOutdated} then 'pending' else '${status}' end,
     due_at = case when status = 'disabled' then null when again or ${isOutdated} then now() else ${dueAt} end
   where id = $1 and organization_id = $2 and claim_id = $3`;

const confirmed = ending(
  "synced",
  "null",
  `version = $4, last_synced = now(), failures = 0, last_error_code = null, last_error_message = null,
   last_error_at = null,`,
);

const failed = ending(
  "failed",
  "now() + make_interval(secs => $6)",
  "failures = failures + 1, last_error_code = $4, last_error_message = $5, last_error_at = now(),",
);

const givenBack = ending("pending", "now()");

/** The destination has confirmed the version. */
export async function noteConfirmed({ db, audit }: Tools, link: DueLink): Promise<void> {
  await asSystem(db, async (em) => {
    await run(em, confirmed, [link.id, link.organizationId, link.claimId, link.version]);
    await audit.record(em, [syncEvent(link)]);
  });
}

/** It has not, and is tried again after a while, also where that looks vain: people mend destinations. */
export async function noteFailed({ db, audit }: Tools, link: DueLink, error: TargetError): Promise<void> {
  const { code, message, retryAfterMs } = error;
  const pauseSeconds = pauseMs(link.attempt, retryAfterMs) / 1000;
  await asSystem(db, async (em) => {
    await run(em, failed, [link.id, link.organizationId, link.claimId, code, message, pauseSeconds]);
    await audit.record(em, [syncEvent(link, { code, message })]);
  });
}

/** Nobody knows, since the server stops: another one, or the next, does it anew. */
export async function giveBack({ db, audit }: Tools, link: DueLink): Promise<void> {
  const failure = { code: "timed_out", message: "the server has stopped" } as const;
  await asSystem(db, async (em) => {
    await run(em, givenBack, [link.id, link.organizationId, link.claimId]);
    await audit.record(em, [syncEvent(link, failure)]);
  });
}
