import { type EntityManager, run } from "../db/database.ts";
import { asSystem } from "../jobs.ts";
import { attempting, Rounds } from "../rounds.ts";
import type { GatewayCore } from "./gateway-core.ts";
import { failSilent, silentEnvironments } from "./silence.ts";
import { endOverdueTasks } from "./task-routing.ts";
import type { Timing } from "./timing.ts";

/** Locked in one statement at most. */
const batchSize = 5000;

/**
 * Looks after the gateways and their tasks, beside the API: who could hear a gateway judges its silence. All replicas
 * do it, and one of them at a time.
 */
export const gatewayMonitor = (core: GatewayCore): Rounds =>
  new Rounds(async (signal) => {
    await lookAfterGateways(core, signal);
    return core.timing.monitorInterval * 1000;
  });

/**
 * One round, unless a replica has just had one; answers whether there was. What cannot be done is logged and left to the
 * next round, and keeps nothing else from being done.
 */
export async function lookAfterGateways(core: GatewayCore, signal?: AbortSignal): Promise<boolean> {
  const attempt = attempting(core.logger, signal);
  const heardUntil = await attempt("a round of the gateway monitor", () => beginRound(core));
  if (heardUntil === undefined) return false;
  const silent = await attempt("finding silent gateways", () => silentEnvironments(core, heardUntil));
  for (const environment of silent ?? []) {
    const { organizationId, environment: name } = environment;
    await attempt(`failing gateways of ${name} of ${organizationId}`, () => failSilent(core, environment, heardUntil));
  }
  await attempt("ending overdue tasks", () => endOverdueTasks(core));
  const { db, work } = core;
  await attempt("cancelling tasks that are about nothing", () => asSystem(db, (em) => work.cancelOrphaned(em)));
  await attempt("queueing checks", () => asSystem(db, (em) => work.queueChecks(em)));
  return true;
}

/**
 * Begins a round, and answers until when gateways could be heard; nothing, when a replica has begun one less than half an
 * interval ago. After a time without rounds nobody was silent meanwhile: it is added to what all are judged by (G-8.6).
 */
async function beginRound({ db, timing, logger }: GatewayCore): Promise<string | undefined> {
  return asSystem(db, async (em) => {
    const [round] = await run<{ heard_until: string; unwatched: number }>(
      em,
      `with due as (
         select last_run from gateway_monitor
         where last_run not between now() - make_interval(secs => $1) and now() + make_interval(secs => $1)
         for update skip locked)
       update gateway_monitor m set last_run = now() from due
       returning m.last_run as heard_until, extract(epoch from now() - due.last_run)::float8 as unwatched`,
      [timing.monitorInterval / 2],
    );
    if (round === undefined || isUsual(round, timing)) return round?.heard_until;
    logger.info({ seconds: Math.round(round.unwatched) }, "gateways could not be heard; that time does not count");
    await forgive(em, Math.max(0, round.unwatched));
    return round.heard_until;
  });
}

/** Less than no time passes where the database's clock was set back. */
const isUsual = ({ unwatched }: { readonly unwatched: number }, { longestUnwatched }: Timing): boolean =>
  unwatched >= 0 && unwatched <= longestUnwatched;

/** In the order in which gateways are always locked. Nobody was heard of in a time that is yet to come. */
async function forgive(em: EntityManager, seconds: number): Promise<void> {
  for (let last = "00000000-0000-0000-0000-000000000000"; last !== ""; ) {
    const [batch] = await run<{ last: string | null; forgiven: number }>(
      em,
      `with silent as (
         select id from gateway where retired_at is null and id > $1 order by id limit $2 for no key update),
       forgiven as (
         update gateway g set silent_since = least(now(), g.silent_since + make_interval(secs => $3)),
           last_heartbeat = least(now(), g.last_heartbeat)
         from silent where g.id = silent.id returning g.id)
       select max(id::text) as last, count(*)::int as forgiven from forgiven`,
      [last, batchSize, seconds],
    );
    last = batch?.forgiven === batchSize ? (batch.last ?? "") : "";
  }
}
