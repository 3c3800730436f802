import type { Core } from "../context.ts";
import { asSystem, type Job } from "../jobs.ts";
import { inSystemWork } from "../system-work.ts";
import { evaluate } from "./evaluation.ts";
import type { Facts } from "./facts.ts";
import { findCurrent, keepEvaluation } from "./report-record.ts";

const name = "governance.evaluate";
/** Of one run, which must end within minutes; the next run goes on behind them. */
const mostOrganizations = 20;
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
      const failures: unknown[] = [];
      for (const { id } of organizations) {
        await evaluateCurrent(core, facts, id).catch((err: unknown) => {
          logger.warn({ organization_id: id, err }, "the governance report of an organization was not evaluated");
          failures.push(err);
        });
      }
      // What keeps all of them from it is not one organization's own trouble.
      if (failures.length > 0 && failures.length === organizations.length) throw failures[0];
      const last = organizations.at(mostOrganizations - 1);
      if (last !== undefined) await asSystem(db, (em) => jobs.enqueue(em, name, { after: last.id }));
    },
  };
}

async function evaluateCurrent(core: Core, facts: Facts, organizationId: string): Promise<void> {
  await inSystemWork(core, organizationId, async ({ query, alsoRecord }) => {
    const current = await findCurrent({ query }, organizationId);
    if (current === undefined) return;
    const { status } = current.evaluation;
    const evaluation = await evaluate({ query }, organizationId, current.report, facts);
    const kept = await keepEvaluation({ query }, current, evaluation);
    if (kept === undefined || evaluation.status === status) return;
    const details = { from: status, to: evaluation.status };
    alsoRecord("governance.evaluated", { type: "governance_report", id: current.id, details });
  });
}
