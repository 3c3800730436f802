import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "chai";
import { fuzzRequests } from "../standards/ocsp/request-fuzz.ts";

const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const rounds = 20;
const inputsOfARound = 50_000;
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
const mebibyte = 1024 * 1024;

describe(`A million damaged OCSP requests (FUZZ_SEED=${seed})`, () => {
  it("are read or refused, each in no time, and leave nothing behind", () => {
    const memory: number[] = [];
    let slowestMs = 0;

    for (let round = 0; round < rounds; round += 1) {
      slowestMs = Math.max(slowestMs, fuzzRequests(seed + round, inputsOfARound).slowestMs);
      collectGarbage();
      const { heapUsed, external } = process.memoryUsage();
      memory.push((heapUsed + external) / mebibyte);
    }

    const [first = 0, last = 0] = [memory[1], memory.at(-1)];
    console.log(`      slowest ${slowestMs.toFixed(1)} ms, memory ${first.toFixed(1)} and ${last.toFixed(1)} MiB`);
    // A pause of the collector, or of the machine, is in it.
    expect(slowestMs).to.be.below(1000);
    expect(last).to.be.below(first + 5);
  });
});
