import type { Core } from "../context.ts";
import { asSystem, type Job } from "../jobs.ts";
import { inSystemWork } from "../system-work.ts";
import { evaluate } from "./evaluation.ts";
import type { Facts } from "./facts.ts";
import { findCurrent, keepEvaluation } from "./report-record.ts";

const name = "governance.evaluate";
/** Of one run; the next one goes on behind them. */
const mostOrganizations = 20;
/** A run begins with no other organization after so long, since the queue gives it up after five minutes. */
const longestRunMs = 60_000;
const first = "00000000-0000-0000-0000-000000000000";

/** Evaluates, each night, the current report of each organization (G-14.3). */
export function evaluationJob(core: Core, facts: Facts): Job<{ readonly after?: string }> {
  const { db, jobs, logger } = core;
  return {
    name,
    schedule: "23 2 * * *",
    async run({ after = first }) {
      const organizations = await db.query<{ id: string }>(
        `select distinct organization_id as id from governance_report where organization_id > $1
         order by organization_id limit $2`,
        [after, mostOrganizations],
      );
      const endMs = performance.now() + longestRunMs;
      const done: string[] = [];
      const failures: unknown[] = [];
      for (const { id } of organizations) {
        if (performance.now() > endMs) break;
        done.push(id);
        await evaluateCurrent(core, facts, id).catch((err: unknown) => {
          logger.warn({ organization_id: id, err }, "the governance report of an organization was not evaluated");
          failures.push(err);
        });
      }
      // What keeps all of them from it is not one organization's own trouble.
      if (failures.length > 0 && failures.length === done.length) throw failures[0];
      const isLast = done.length === organizations.length && done.length < mostOrganizations;
      if (!isLast) await asSystem(db, (em) => jobs.enqueue(em, name, { after: done.at(-1) }));
    },
  };
}

async function evaluateCurrent(core: Core, facts: Facts, organizationId: string): Promise<void> {
  const current = await findCurrent(core.db, organizationId);
  if (current === undefined) return;
  const { id, report } = current;
  // It may take seconds, for which no transaction stays open.
  const evaluation = await evaluate(core.db, organizationId, report, facts);
  await inSystemWork(core, organizationId, async ({ query, alsoRecord }) => {
    const kept = await keepEvaluation({ query }, organizationId, id, evaluation);
    const to = kept?.row.evaluation.status;
    if (kept === undefined || kept.from === to) return;
    alsoRecord("governance.evaluated", { type: "governance_report", id, details: { from: kept.from, to } });
  });
}
