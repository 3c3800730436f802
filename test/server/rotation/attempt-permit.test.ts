import { once } from "node:events";
import { expect } from "chai";
import { Overdue, permitFor } from "../../../src/server/rotation/attempt-permit.ts";

const running = () => new AbortController();

describe("The permit of the server's own attempt", () => {
  it("ends to the millisecond, also where no timer ran meanwhile, as when the machine slept", () => {
    let now = 1_000_000;
    const permit = permitFor(30, running().signal, () => now);

    now += 29_999;
    permit.check();
    now += 1;

    expect(() => permit.check()).to.throw(Overdue, "timed out after 30 s");
  });

  it("stops what runs when the time is over", async () => {
    const { signal } = permitFor(0.02, running().signal);

    await once(signal, "abort");

    expect(signal.reason).to.be.instanceOf(Overdue);
  });

  it("ends with the program", () => {
    const program = running();
    const permit = permitFor(30, program.signal);

    program.abort(new Error("the server is being stopped"));

    expect(permit.signal.aborted).to.equal(true);
    expect(() => permit.check()).to.throw("the server is being stopped");
  });
});
