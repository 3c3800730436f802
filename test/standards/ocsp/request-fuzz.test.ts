import { expect } from "chai";
import { fuzzRequests } from "./request-fuzz.ts";

const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const inputs = 20_000;

describe(`A damaged OCSP request (FUZZ_SEED=${seed})`, () => {
  it("is read within its bounds, or refused as malformed", () => {
    const { refused } = fuzzRequests(seed, inputs);

    console.log(`      ${inputs - refused} were read, ${refused} were refused`);
    expect(refused).to.be.within(inputs / 2, inputs - inputs / 50);
  }).timeout(60_000);
});
