import { expect } from "chai";
import { randomFrom } from "../harness/random.ts";
import { happeningsIn } from "./failover/happenings.ts";
import { readHistory, recordHistory } from "./failover/recorder.ts";
import type { ReplicatedServer } from "./failover/replicated-server.ts";
import { troubleServer } from "./failover/server-faults.ts";
import { FailoverStage } from "./failover/stage.ts";
import { findContradictions } from "./failover-history.ts";

/** Of the environments together: each a trouble and its end. */
const rounds = Number(process.env["HOLDFAST_FAULT_ROUNDS"] ?? 500);
const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
/** Everything is back by then, also on a machine that is busy with other things. */
const healingMs = 120_000;

/** Beside all troubles and faults. */
const mustHappen = [
  "primary: new to active",
  "primary: new to standby",
  "primary: active to failed",
  "primary: active to standby",
  "primary: failed to active",
  "primary: standby to active",
  "dr-standby: standby to active",
  "dr-standby: active to standby",
  "dr-standby: active to failed",
  "dr-standby: standby to failed",
  "dr-standby: failed to standby",
  "rotate_secret: succeeded",
  "rotate_secret: failed",
  "rotate_secret: timed_out",
  "rotate_secret: tried again",
  "verify_secret: succeeded",
  "gateway.activate_dr done",
  "gateway.failback done",
  "gateway.deactivate done",
  "gateway.activate_dr refused: 409 another failover operation is in progress",
  "gateway.activate_dr refused: 503 the lock service cannot be reached",
  "gateway.failback refused: 409 primary is already active",
  "claims refused: stale fencing token",
  "reports refused: the task has ended: it is timed_out",
  "heartbeats refused: another instance of this gateway has registered",
];

describe("Environments whose gateways, operators and servers get into trouble at once", function () {
  this.timeout(600_000 + rounds * 5000);
  const seeds = randomFrom(seed);
  const stage = new FailoverStage(() => randomFrom(Math.floor(seeds() * 2 ** 31)));
  const { server, witness, lives, operators } = stage;
  before(async () => {
    witness.expect(...mustHappen);
    await stage.start();
    await recordHistory((text) => server.sql(text));
  });
  after(() => stage.stop());

  /** Lives through all rounds while the server is troubled. */
  async function liveThroughIt(): Promise<void> {
    const ending = new AbortController();
    for (const each of operators) void each.watch();
    await Promise.all(lives.map((life) => life.begin()));
    const feeding = lives.map((life) => life.feed(ending.signal));
    const troubling = troubleServer(server, randomFrom(seed), witness, ending.signal);
    let left = rounds;
    try {
      await Promise.all(lives.map((life) => life.live(() => left-- > 0)));
    } finally {
      ending.abort();
      await Promise.all([...feeding, troubling]);
    }
  }

  /** The environments that are not as before within some time. */
  async function findUnhealed(): Promise<string[]> {
    const unhealed = lives.map(async (life) => {
      const isHealed = (await life.heal(healingMs)) && (await life.rotateAll(healingMs));
      return isHealed ? [] : [life.description];
    });
    return (await Promise.all(unhealed)).flat();
  }

  it("have one active gateway at most, do each task once, keep what they said, and recover", async () => {
    await liveThroughIt();
    const unhealed = await findUnhealed();
    await stage.readSecrets();
    // What is seen from here on may be younger than the history that is read.
    const sightings = [...witness.sightings];
    const commits = await readHistory((text) => server.sql(text));
    for (const [what, times] of happeningsIn(commits)) witness.count(what, times);
    const contradictions = findContradictions(commits, sightings);

    console.log(
      witness
        .lines()
        .map((line) => `      ${line}`)
        .join("\n"),
    );
    console.log(`      HOLDFAST_TEST_SEED=${seed}: ${rounds} rounds, ${commits.length} commits`);
    const wrong = [
      ...contradictions.map(({ what, where }) => `${what}: ${where}`),
      ...unhealed.map((environment) => `not healed: ${environment}`),
      ...witness.strange.map((answer) => `strange answer: ${answer}`),
      ...unexpectedFailures(server).map((line) => `a replica said: ${line}`),
    ];
    // Of thousands, the first suffice.
    expect(wrong.slice(0, 20).join("\n")).to.equal("");
    expect(witness.missing).to.deep.equal([]);
  });
});

/** What the replicas could not explain themselves, and deadlocks, which PostgreSQL calls 40P01. */
const unexpectedFailures = ({ replicas }: ReplicatedServer) => {
  const unexpected = ["call failed unexpectedly", "40P01"];
  const lines = replicas.flatMap(({ log }) => log.split("\n"));
  return lines.filter((line) => unexpected.some((text) => line.includes(text)));
};
