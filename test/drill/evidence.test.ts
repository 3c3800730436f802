import { expect } from "chai";
import { type Evidence, isGood, judge } from "./evidence.ts";

/** One secret, of which one rotation took two attempts, on two gateways. */
const good = {
  accepted: ["t"],
  tasks: [
    { id: "t", secret_id: "s", status: "timed_out", retry_of: null },
    { id: "u", secret_id: "s", status: "succeeded", retry_of: "t" },
  ],
  applied: [
    { gateway: "primary", task: "t", secret: "s", hash: "a" },
    { gateway: "dr", task: "u", secret: "s", hash: "a" },
  ],
  secrets: new Map([["s", { hash: "a", rotations: 1 }]]),
} satisfies Evidence;

describe("The verdict on a drill", () => {
  it("is good when all that was accepted was done once, whoever began it", () => {
    const verdict = judge(good);

    expect(verdict).to.deep.equal({
      accepted: 1,
      triedAgain: 1,
      lost: [],
      committedTwice: [],
      ambiguous: [],
      diverged: [],
    });
    expect(isGood(verdict)).to.equal(true);
  });

  const faults: Readonly<Record<string, Partial<Evidence>>> = {
    "was not done": { tasks: [{ id: "t", secret_id: "s", status: "failed", retry_of: null }] },
    "nobody knows any more": { tasks: [], secrets: new Map([["s", { hash: "a", rotations: 0 }]]) },
    "made two versions": { secrets: new Map([["s", { hash: "a", rotations: 2 }]]) },
    "was done by two attempts": {
      tasks: good.tasks.map((task) => ({ ...task, status: "succeeded" })),
      secrets: new Map([["s", { hash: "a", rotations: 2 }]]),
    },
    "was applied with two values": {
      applied: [{ gateway: "primary", task: "t", secret: "s", hash: "b" }, ...good.applied.slice(1)],
    },
    "was overwritten at its target": {
      applied: [...good.applied, { gateway: "primary", task: "before", secret: "s", hash: "b" }],
    },
    "was never asked for": { accepted: [], tasks: [], applied: [], secrets: new Map() },
  };
  for (const [how, evidence] of Object.entries(faults)) {
    it(`is bad when a rotation ${how}`, () => {
      expect(isGood(judge({ ...good, ...evidence }))).to.equal(false);
    });
  }
});
