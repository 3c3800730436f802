import { once } from "node:events";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import { pino } from "pino";
import { type Standing, StandingSchema } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { Abandoned, Authority, type Term } from "../../src/gateway/authority.ts";

const logger = pino({ level: "silent" });

const standing = (fields: MessageInitShape<typeof StandingSchema>) =>
  create(StandingSchema, { leaseSeconds: 120, heartbeatIntervalSeconds: 30, ...fields });
const active = standing({ activationStatus: "active", fencingToken: "5" });
const standby = standing({ activationStatus: "standby" });

describe("The authority of a gateway", () => {
  let now: number;
  let terms: number;
  let authority: Authority;
  beforeEach(() => {
    now = 1_000_000;
    terms = 0;
    authority = new Authority({
      now: () => now,
      logger,
      onTerm: () => {
        terms += 1;
      },
    });
  });

  const termNow = () => authority.term as Term;

  it("is none before the server has answered", () => {
    expect(authority.term).to.equal(undefined);
    expect(authority.activationStatus).to.equal(undefined);
  });

  it("of the active gateway is that of its token", () => {
    authority.answered(active, now);

    expect(termNow().fencingToken).to.equal("5");
    expect(terms).to.equal(1);
  });

  it("of a standby gateway has no token", () => {
    authority.answered(standby, now);

    expect(termNow().fencingToken).to.equal(undefined);
    expect(terms).to.equal(1);
  });

  const nothing: [string, Standing][] = [
    ["that has failed", standing({ activationStatus: "failed" })],
    ["that is to stand down", standing({ activationStatus: "standby", standDown: true })],
    ["that is active without a token", standing({ activationStatus: "active" })],
    ["of a status that nobody knows yet", standing({ activationStatus: "retired" })],
  ];
  for (const [what, how] of nothing) {
    it(`of a gateway ${what} is none`, () => {
      authority.answered(how, now);

      expect(authority.term).to.equal(undefined);
      expect(authority.activationStatus).to.equal(how.activationStatus);
    });
  }

  it("stays the same from one heartbeat to the next", () => {
    authority.answered(active, now);
    const term = termNow();
    now += 30_000;

    authority.answered(active, now);

    expect(termNow()).to.equal(term);
    expect(() => term.check()).not.to.throw();
    expect(terms).to.equal(1);
  });

  it("ends with the lease, by the clock alone", () => {
    authority.answered(active, now);
    const term = termNow();

    now += 120_000;

    expect(() => term.check()).to.throw(Abandoned);
    expect(term.signal.aborted).to.equal(true);
    expect(authority.term).to.equal(undefined);
  });

  it("ends with the lease by itself", async () => {
    const real = new Authority({ now: () => performance.now(), logger, onTerm: () => {} });
    real.answered(standing({ ...active, leaseSeconds: 1 }), performance.now() - 900);
    const { signal } = real.term as Term;

    await once(signal, "abort");

    expect(signal.reason).to.be.instanceOf(Abandoned);
  });

  it("does not come back with an answer to what was sent before the lease ended", () => {
    const sentAt = now;
    authority.answered(active, sentAt);
    now += 120_000;

    authority.answered(active, sentAt);

    expect(authority.term).to.equal(undefined);
  });

  it("is another one after the lease has ended, also under the same token", () => {
    authority.answered(active, now);
    const before = termNow();
    now += 121_000;

    authority.answered(active, now);

    expect(() => before.check()).to.throw(Abandoned);
    expect(() => termNow().check()).not.to.throw();
    expect(terms).to.equal(2);
  });

  const endings: [string, Standing][] = [
    ["another token", standing({ activationStatus: "active", fencingToken: "6" })],
    ["standby", standby],
    ["failed", standing({ activationStatus: "failed" })],
    ["standing down", standing({ activationStatus: "standby", standDown: true })],
  ];
  for (const [what, how] of endings) {
    it(`ends at once when the server says ${what} by itself`, () => {
      authority.answered(active, now);
      const term = termNow();

      authority.told(how);

      expect(term.signal.aborted).to.equal(true);
      expect(() => term.check()).to.throw(Abandoned);
    });
  }

  it("of a standby gateway ends when it is to stand down, and begins when it no longer is", () => {
    authority.answered(standby, now);
    const term = termNow();

    authority.told(standing({ activationStatus: "standby", standDown: true }));
    const whileDown = authority.term;
    authority.told(standby);

    expect(term.signal.aborted).to.equal(true);
    expect(whileDown).to.equal(undefined);
    expect(() => termNow().check()).not.to.throw();
  });

  it("is not extended by what the server says by itself", () => {
    authority.answered(active, now);
    now += 100_000;
    authority.told(active);

    now += 20_000;

    expect(authority.term).to.equal(undefined);
  });

  it("begins by what the server says by itself, while the lease holds", () => {
    authority.answered(standby, now);
    now += 10_000;

    authority.told(active);

    expect(termNow().fencingToken).to.equal("5");
    expect(authority.leaseLeftMs).to.equal(110_000);
  });

  it("does not begin by what the server says by itself once the lease has ended", () => {
    authority.answered(standby, now);
    now += 121_000;

    authority.told(active);

    expect(terms).to.equal(1);
    expect(authority.term).to.equal(undefined);
  });
});
