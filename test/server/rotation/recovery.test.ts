import { expect } from "chai";
import { endOverdueAttempts } from "../../../src/server/rotation/overdue-attempts.ts";
import { driverNamed } from "../../../src/server/rotation/providers.ts";
import { type Attempt, claimAttempt, settleAttempt } from "../../../src/server/rotation/server-attempt.ts";
import type { Server } from "../../../src/server/server.ts";
import type { Applier, Permit } from "../../../src/targets/drivers/driver.ts";
import { until } from "../../faults/own-engines.ts";
import { type MakeTarget, Targets } from "../../faults/rotation/targets.ts";
import { useServer } from "../../harness/server.ts";
import { Configurations } from "./configurations.ts";
import { makeDue, rotationRounds } from "./rounds.ts";

const server = useServer();
const configurations = new Configurations(server);

/** What an attempt has done when whoever makes it dies. */
const steps = ["nothing", "claimed its task", "applied the candidate", "verified it", "committed it"] as const;
type Step = (typeof steps)[number];

const asLongAsItTakes: Permit = { signal: new AbortController().signal, check: () => {} };

/** The replica that is left. */
let survivor: Server;
let targets: Targets;
before(async function () {
  this.timeout(60_000);
  targets = await Targets.start();
  survivor = await server.startReplica();
});
after(() => targets.stop());

/** A secret whose target is new, and whose time has come. */
async function due(make: MakeTarget) {
  const target = await make();
  const { secret, config } = await configurations.of({ ...target.config, enabled: true }, { value: target.value });
  await makeDue(server, secret.id);
  return { target, secretId: secret.id as string, configId: config.id as string };
}

type Due = Awaited<ReturnType<typeof due>>;

/** Queues what is due, as the scheduler of a replica does that dies before it starts anything. */
async function queue({ secretId, configId }: Due): Promise<string> {
  await server.sql(
    `insert into gateway_task (organization_id, type, config_id, secret_id, max_attempts, requested_by)
     select organization_id, 'rotate_secret', $2, id, 1, 'system' from secret where id = $1
     on conflict do nothing`,
    [secretId, configId],
  );
  const [task] = await server.sql(
    "select id from gateway_task where config_id = $1 and status in ('pending', 'running')",
    [configId],
  );
  return task.id;
}

/** Makes an attempt up to a step, and nothing after it. */
async function dieAfter(step: Step, each: Due): Promise<void> {
  const core = { ...server.server.core };
  const taskId = await queue(each);
  if (step === "nothing") return;
  const [{ organizationId }] = await server.sql(
    `select organization_id as "organizationId" from secret where id = $1`,
    [each.secretId],
  );
  const attempt = (await claimAttempt(core, { id: taskId, organizationId })) as Attempt;
  if (step === "claimed its task") return;
  const applier = applierOf(attempt);
  const value = (await applier.apply(attempt.assignment, asLongAsItTakes)) ?? attempt.assignment.value;
  if (step === "applied the candidate") return;
  await applier.verify({ ...attempt.assignment, value }, asLongAsItTakes);
  if (step === "verified it") return;
  await settleAttempt(core, attempt, { value }, asLongAsItTakes);
}

const applierOf = ({ driverName }: Attempt): Applier =>
  driverNamed(driverName).open?.({ outbound: server.server.core.outbound }) as Applier;

/** Lets the time pass in which an attempt may go on, and until it is tried again. */
const letTimePass = ({ secretId }: Due) =>
  Promise.all([
    server.sql("update gateway_task set deadline_at = now() where secret_id = $1 and status = 'running'", [secretId]),
    server.sql("update secret set rotation_due_at = least(rotation_due_at, now()) where id = $1", [secretId]),
  ]);

/** Lets the replica that is left do whatever there is to be done. */
async function recover(each: Due): Promise<void> {
  await letTimePass(each);
  await rotationRounds(survivor);
  await until(async () => {
    await rotationRounds(survivor);
    const open = await server.sql(
      "select from gateway_task where config_id = $1 and status in ('pending', 'running')",
      [each.configId],
    );
    return open.length === 0;
  });
}

async function expectConsistent({ target, secretId, configId }: Due, versions: number): Promise<void> {
  const { body } = await server.admin.rest("GET", `/api/v1/secrets/${secretId}`);
  expect(await target.accepts(body.value), "the value of the secret logs in").to.equal(true);
  const { body: kept } = await server.admin.rest("GET", `/api/v1/secrets/${secretId}/versions`);
  expect(kept.data.map(({ version }: { version: number }) => version)).to.deep.equal(
    Array.from({ length: versions }, (_, index) => versions - index),
  );
  expect(await configurations.get(secretId)).to.include({
    last_status: "succeeded",
    last_error: null,
    consecutive_failures: 0,
  });
  const [row] = await server.sql(
    "select candidate, candidate_attempts, unresolved, earlier_candidates from rotation_config where id = $1",
    [configId],
  );
  expect(row).to.deep.equal({
    candidate: null,
    candidate_attempts: 0,
    unresolved: false,
    earlier_candidates: null,
  });
}

/** The value of the secret is never changed before it is certain. */
async function expectUnchanged({ target, secretId }: Due): Promise<void> {
  const { body } = await server.admin.rest("GET", `/api/v1/secrets/${secretId}`);
  expect(body).to.include({ value: target.value, version: 1 });
}

const kinds = [
  "a webhook that is told",
  "a webhook that makes the values",
  "a role of PostgreSQL that changes its own password",
  "a role of PostgreSQL whose password an administrator changes",
  "two roles of PostgreSQL that take turns",
  "a user of MariaDB who changes its own password",
  "a user of MariaDB whose password an administrator changes",
];

for (const kind of kinds) {
  describe(`A rotation at ${kind}`, function () {
    this.timeout(60_000);
    let make: MakeTarget;
    before(function () {
      const found = targets.kinds[kind];
      if (found === undefined) this.skip();
      make = found;
    });

    for (const step of steps) {
      it(`is completed by another replica after one has died that had ${step === "nothing" ? "only queued it" : step}`, async () => {
        const each = await due(make);
        await dieAfter(step, each);
        if (step !== "committed it") await expectUnchanged(each);

        await recover(each);

        await expectConsistent(each, 2);
      });
    }

    if (!/own password|take turns/.test(kind)) return;
    // More than there is room for candidates that were given up.
    const deaths = 20;
    it(`is completed after ${deaths} that died, one after the other, and by the next one as well`, async () => {
      const each = await due(make);
      for (let death = 0; death < deaths; death += 1) {
        await dieAfter(steps[1 + (death % 3)] as Step, each);
        await expectUnchanged(each);
        await letTimePass(each);
        await endOverdueAttempts(survivor.core);
      }

      await recover(each);
      await expectConsistent(each, 2);
      await makeDue(server, each.secretId);
      await recover(each);

      await expectConsistent(each, 3);
    });
  });
}
