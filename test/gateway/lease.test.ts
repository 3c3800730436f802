import { expect } from "chai";
import { Lease } from "../../src/gateway/lease.ts";
import { machineClock } from "../../src/targets/machine-clock.ts";

describe("A lease", () => {
  let now: number;
  let lease: Lease;
  beforeEach(() => {
    now = 1_000_000;
    lease = new Lease(() => now);
  });

  it("does not hold before anything was answered", () => {
    expect(lease.holds).to.equal(false);
    expect(lease.leftMs).to.equal(0);
  });

  it("lasts from the moment when the heartbeat was sent, not from the answer", () => {
    const sentAt = now;
    now += 5000;

    lease.extend(sentAt, 120);

    expect(lease.leftMs).to.equal(115_000);
  });

  it("ends at its end, to the millisecond", () => {
    lease.extend(now, 120);

    now += 119_999;
    expect(lease.holds).to.equal(true);
    now += 1;
    expect(lease.holds).to.equal(false);
    expect(lease.leftMs).to.equal(0);
  });

  it("is extended by the next answer", () => {
    lease.extend(now, 120);
    now += 30_000;

    lease.extend(now, 120);

    expect(lease.leftMs).to.equal(120_000);
  });

  it("holds again after it has ended, once there is an answer", () => {
    lease.extend(now, 2);
    now += 10_000;

    lease.extend(now - 500, 2);

    expect(lease.leftMs).to.equal(1500);
  });

  it("does not hold by an answer that took longer than it lasts", () => {
    const sentAt = now;
    now += 121_000;

    lease.extend(sentAt, 120);

    expect(lease.holds).to.equal(false);
  });

  it("is not changed by an answer that was overtaken by a later one", () => {
    const [early, late] = [now, now + 1000];
    now += 2000;
    lease.extend(late, 120);

    lease.extend(early, 600);

    expect(lease.leftMs).to.equal(119_000);
  });

  it("gets shorter when the server says so", () => {
    lease.extend(now, 120);

    lease.extend(now, 60);

    expect(lease.leftMs).to.equal(60_000);
  });

  it("goes by a clock that does not go back", () => {
    const times = Array.from({ length: 1000 }, machineClock);

    expect(times).to.deep.equal(times.toSorted((one, other) => one - other));
    expect(times[0]).to.be.greaterThan(0);
  });
});
