import { once } from "node:events";
import { expect } from "chai";
import { Abandoned, type Term } from "../../src/gateway/authority.ts";
import { Overdue, permitFor } from "../../src/gateway/task-permit.ts";

describe("The permit of a task", () => {
  let now: number;
  let lease: AbortController;
  let program: AbortController;
  let term: Term;
  beforeEach(() => {
    now = 1_000_000;
    lease = new AbortController();
    program = new AbortController();
    term = { fencingToken: "5", signal: lease.signal, check: () => lease.signal.throwIfAborted() };
  });

  const permitUntil = (endsAt: number) => permitFor({ term, now: () => now, endsAt, stop: program.signal });

  it("lasts while there is time, its term lasts and the program runs", () => {
    const permit = permitUntil(now + 30_000);
    now += 29_999;

    permit.check();
    expect(permit.signal.aborted).to.equal(false);
  });

  it("ends to the millisecond, also where no timer ran meanwhile", () => {
    const permit = permitUntil(now + 30_000);
    now += 30_000;

    expect(() => permit.check()).to.throw(Overdue);
  });

  it("stops what runs when the time is over", async () => {
    const permit = permitUntil(now + 20);

    await once(permit.signal, "abort");

    expect(permit.signal.aborted).to.equal(true);
  });

  it("is there for no time at all when that is over before it begins", async () => {
    const permit = permitUntil(now - 1);

    expect(() => permit.check()).to.throw(Overdue);
    await once(permit.signal, "abort");
  });

  it("ends with its term", () => {
    const permit = permitUntil(now + 30_000);

    lease.abort(new Abandoned("the lease has ended"));

    expect(permit.signal.aborted).to.equal(true);
    expect(() => permit.check()).to.throw(Abandoned, "the lease has ended");
  });

  it("ends with a term of which nobody was told yet that it is over", () => {
    const over = new Abandoned("the lease has ended");
    term = {
      ...term,
      check: () => {
        throw over;
      },
    };

    expect(() => permitUntil(now + 30_000).check()).to.throw(over);
  });

  it("ends with the program", () => {
    const permit = permitUntil(now + 30_000);

    program.abort(new Abandoned("the gateway stops"));

    expect(permit.signal.aborted).to.equal(true);
    expect(() => permit.check()).to.throw(Abandoned, "the gateway stops");
  });

  // A machine that has been up for three days says that these are 262144.1 and 262144.11 seconds.
  it("is given by any time that a machine has been up for", () => {
    const claimedAt = 262_144.1 * 1000;
    now = 262_144.11 * 1000;
    expect(claimedAt + 30_000 - now).to.equal(29_989.999999970198);

    const permit = permitUntil(claimedAt + 30_000);

    permit.check();
  });
});
