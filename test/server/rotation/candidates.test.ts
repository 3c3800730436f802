import { expect } from "chai";
import { afterOtherSettings, type Candidates, handOut, handOutNone } from "../../../src/server/rotation/candidates.ts";
import { randomFrom } from "../../harness/random.ts";

const none: Candidates = { candidate: undefined, attempts: 0, unresolved: false, earlier: [] };

/** Hands out so many candidates, each attempt ending so that nobody knows what the target has. */
function afterUnsureAttempts(count: number): Candidates {
  let made = 0;
  let candidates = none;
  for (let attempt = 0; attempt < count; attempt += 1) {
    candidates = { ...handOut(candidates, () => `c${(made += 1)}`), unresolved: true };
  }
  return candidates;
}

describe("A candidate", () => {
  it("is the same for three attempts, and then another one", () => {
    let made = 0;
    let candidates = none;
    const handedOut = Array.from({ length: 7 }, () => {
      const next = handOut(candidates, () => `c${(made += 1)}`);
      candidates = next;
      return [next.candidate, next.attempts];
    });

    expect(handedOut).to.deep.equal([
      ["c1", 1],
      ["c1", 2],
      ["c1", 3],
      ["c2", 1],
      ["c2", 2],
      ["c2", 3],
      ["c3", 1],
    ]);
    expect(candidates.earlier).to.deep.equal([]);
  });

  it("that the target may have is remembered when it is given up, the newest first", () => {
    expect(afterUnsureAttempts(9)).to.include({ candidate: "c3", attempts: 3 });
    expect(afterUnsureAttempts(9).earlier).to.deep.equal(["c2", "c1"]);
    expect(afterOtherSettings(afterUnsureAttempts(9))).to.deep.equal({
      candidate: undefined,
      attempts: 0,
      unresolved: true,
      earlier: ["c3", "c2", "c1"],
    });
  });

  it("that the target certainly does not have is forgotten when the settings change", () => {
    expect(afterOtherSettings(handOut(none, () => "c1"))).to.deep.equal(none);
  });

  it("goes on being used when five are remembered and one would have to be forgotten", () => {
    const full = afterUnsureAttempts(18);

    const next = handOut(full, () => "another");

    expect(full.earlier).to.deep.equal(["c5", "c4", "c3", "c2", "c1"]);
    expect(next).to.deep.equal({ ...full, attempts: 4 });
    expect(afterOtherSettings(full)).to.deep.equal(full);
  });

  it("is none where the target makes the values", () => {
    expect(handOutNone(afterUnsureAttempts(1))).to.deep.equal({
      candidate: undefined,
      attempts: 1,
      unresolved: true,
      earlier: ["c1"],
    });
  });
});

/** A target that has one value, which it takes or not. */
class ModelTarget {
  value: string;

  constructor(value: string) {
    this.value = value;
  }

  /** How an attempt ends: done, known to have changed nothing, or with nobody knowing. */
  attempt(candidate: string, random: () => number): "succeeded" | "unchanged" | "unknown" {
    const kind = random();
    if (kind < 0.15) {
      this.value = candidate;
      return "succeeded";
    }
    if (kind < 0.5) return "unchanged";
    if (random() < 0.5) this.value = candidate;
    return "unknown";
  }
}

describe("What is kept of candidates", () => {
  it("always holds what the target has, whatever happens to attempts and settings", () => {
    const ends = { succeeded: 0, unchanged: 0, unknown: 0 };
    let full = 0;
    const lost: string[] = [];
    for (let seed = 1; seed <= 500; seed += 1) {
      const random = randomFrom(seed);
      const target = new ModelTarget("v0");
      let current = "v0";
      let made = 0;
      let candidates = none;
      for (let step = 0; step < 60; step += 1) {
        if (random() < 0.1) candidates = afterOtherSettings(candidates);
        const handedOut = handOut(candidates, () => `s${seed}-${(made += 1)}`);
        candidates = handedOut;
        const end = target.attempt(handedOut.candidate, random);
        ends[end] += 1;
        if (end === "unknown") candidates = { ...candidates, unresolved: true };
        if (end === "succeeded") {
          current = handedOut.candidate;
          candidates = none;
        }

        const known = [current, candidates.candidate, ...candidates.earlier];
        if (!known.includes(target.value) || known.length > 7) lost.push(`seed ${seed}, step ${step}`);
        full += candidates.earlier.length === 5 ? 1 : 0;
      }
    }

    expect(lost).to.deep.equal([]);
    expect(Math.min(ends.succeeded, ends.unchanged, ends.unknown, full)).to.be.above(100);
  });
});
