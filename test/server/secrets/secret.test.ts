import { expect } from "chai";
import { Secret } from "../../../src/server/secrets/secret.ts";

const now = new Date("2026-11-20T00:00:00.000Z");
const at = (days: number) => new Date(now.getTime() + days * 86_400_000);

/** A secret as the entity manager makes it: without a constructor. */
function secretWith(fields: Record<string, unknown>): Secret {
  const defaults = { status: "active", expired: false, version: 1, rotationEnabled: false, rotationIntervalDays: null };
  const times = { updatedAt: at(-1), archivedAt: null, deletedAt: null, expiresAt: null, nextRotation: null };
  return Object.assign(Object.create(Secret.prototype), defaults, times, fields) as Secret;
}

const states: Record<string, Record<string, unknown>> = {
  active: { status: "active" },
  archived: { status: "archived", archivedAt: at(-1) },
  deleted: { status: "deleted", deletedAt: at(-1) },
  "expired, not swept": { status: "active", expired: true, expiresAt: at(-1) },
  "archived and expired, not swept": { status: "archived", archivedAt: at(-2), expired: true, expiresAt: at(-1) },
  "expired and swept": { status: "deleted", expired: true, expiresAt: at(-1), deletedAt: at(-1) },
};

describe("The lifecycle of a secret", () => {
  it("counts one whose life is over as deleted", () => {
    const lifecycles = Object.values(states).map((fields) => secretWith(fields).lifecycle);

    expect(lifecycles).to.deep.equal(["active", "archived", "deleted", "deleted", "deleted", "deleted"]);
  });

  it("restores from every state but active", () => {
    for (const [state, fields] of Object.entries(states)) {
      const secret = secretWith(fields);

      if (state === "active") expect(() => secret.restore(now, undefined)).to.throw("already active");
      else {
        secret.restore(now, undefined);
        expect(secret, state).to.include({ status: "active", archivedAt: null, deletedAt: null, updatedAt: now });
        expect(secret.lifecycle, state).to.equal("active");
        expect(secret.expiresAt, state).to.equal(null);
      }
    }
  });

  it("keeps an end that is still to come through a delete and restore, unless another is given", () => {
    const kept = secretWith({ status: "deleted", expiresAt: at(1) });
    const renewed = secretWith({ status: "deleted", expiresAt: at(1) });

    kept.restore(now, undefined);
    renewed.restore(now, 72);

    expect(kept.expiresAt).to.deep.equal(at(1));
    expect(renewed.expiresAt).to.deep.equal(at(3));
  });

  it("archives once", () => {
    const secret = secretWith({});

    secret.archive(now);

    expect(secret).to.include({ status: "archived", archivedAt: now, updatedAt: now });
    expect(() => secret.archive(now)).to.throw("already archived");
  });

  it("deletes with the time of it", () => {
    const secret = secretWith({});

    secret.delete(now);

    expect(secret).to.include({ status: "deleted", deletedAt: now, updatedAt: now });
  });

  it("is described anew only where something differs", () => {
    const secret = secretWith({ description: "d", tags: ["a", "b"], updatedAt: at(-1) });

    secret.describe(now, "d", ["a", "b", "a"]);
    expect(secret.updatedAt).to.deep.equal(at(-1));
    secret.describe(now, undefined, ["b", "a"]);
    expect(secret).to.deep.include({ description: "d", tags: ["b", "a"], updatedAt: now });
  });

  it("only ever raises the version", () => {
    const secret = secretWith({ version: 4 });

    expect([secret.addVersion(now), secret.addVersion(now)]).to.deep.equal([5, 6]);
    expect(secret.updatedAt).to.equal(now);
  });
});

describe("The rotation of a secret", () => {
  const cases: [string, Record<string, unknown>, [boolean | undefined, number | undefined], Record<string, unknown>][] =
    [
      ["enabled without an interval", {}, [true, undefined], { rotationIntervalDays: 30, nextRotation: at(30) }],
      ["enabled with one", {}, [true, 7], { rotationIntervalDays: 7, nextRotation: at(7) }],
      ["given an interval while off", {}, [undefined, 7], { rotationEnabled: false, nextRotation: null }],
      [
        "enabled while it is on already",
        { rotationEnabled: true, rotationIntervalDays: 5, nextRotation: at(2) },
        [true, undefined],
        { rotationIntervalDays: 5, nextRotation: at(2) },
      ],
      [
        "given another interval, counts it from the last rotation",
        { rotationEnabled: true, rotationIntervalDays: 5, nextRotation: at(2), lastRotated: at(-3) },
        [undefined, 10],
        { rotationIntervalDays: 10, nextRotation: at(7) },
      ],
      [
        "disabled, keeps its interval",
        { rotationEnabled: true, rotationIntervalDays: 5, nextRotation: at(2) },
        [false, undefined],
        { rotationEnabled: false, rotationIntervalDays: 5, nextRotation: null },
      ],
      [
        "enabled again, starts its interval from now",
        { rotationEnabled: false, rotationIntervalDays: 5, lastRotated: at(-100) },
        [true, undefined],
        { rotationEnabled: true, nextRotation: at(5) },
      ],
    ];
  for (const [what, before, [enabled, intervalDays], after] of cases) {
    it(what, () => {
      const secret = secretWith(before);

      secret.setRotation(now, enabled, intervalDays);

      expect(secret).to.deep.include(after);
    });
  }

  it("that became overdue while the secret was away starts its interval anew", () => {
    const away = { status: "archived", rotationEnabled: true, rotationIntervalDays: 5 };
    const overdue = secretWith({ ...away, nextRotation: at(-1) });
    const coming = secretWith({ ...away, nextRotation: at(1) });

    overdue.restore(now, undefined);
    coming.restore(now, undefined);

    expect(overdue.nextRotation).to.deep.equal(at(5));
    expect(coming.nextRotation).to.deep.equal(at(1));
  });
});
