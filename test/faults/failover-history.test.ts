import { expect } from "chai";
import type { Sighting } from "./failover/sightings.ts";
import {
  type Change,
  type Commit,
  type EventAdded,
  findContradictions,
  type GatewayChange,
  type LockChange,
  type TaskChange,
  type VersionAdded,
} from "./failover-history.ts";

/** Of the one environment "e": who holds it, under which token. */
const lock = (holder: string | null, token: bigint | null): LockChange => ({
  of: "lock",
  environment: "e",
  holder,
  token,
});

/** A primary is called "p…", and a DR gateway otherwise. */
const gateway = (
  id: string,
  status: GatewayChange["status"],
  { isDeactivated = false, instance = "first" } = {},
): GatewayChange => ({
  of: "gateway",
  id,
  environment: "e",
  role: id.startsWith("p") ? "primary" : "dr-standby",
  status,
  instance,
  isDeactivated,
});

/** A rotation of the secret "s", for the gateway "p" unless told otherwise. */
const task = (id: string, status: TaskChange["status"], fields: Partial<TaskChange> = {}): TaskChange => ({
  of: "task",
  id,
  environment: "e",
  type: "rotate_secret",
  status,
  gateway: "p",
  config: "c",
  secret: "s",
  attempt: 1,
  maxAttempts: 3,
  retryOf: null,
  claim: null,
  token: null,
  ...fields,
});

/** The same, claimed by "p" under the token 1. */
const claimed = (id: string, status: TaskChange["status"], fields: Partial<TaskChange> = {}): TaskChange =>
  task(id, status, { claim: `claim of ${id}`, token: 1n, ...fields });

const version = (number: number, secret = "s"): VersionAdded => ({ of: "version", secret, version: number });
const event = (action: string, fields: Partial<EventAdded> = {}): EventAdded => ({
  of: "event",
  action,
  requestId: null,
  resource: "s",
  ...fields,
});
const rotated = event("secret.rotate");

const assignment = (id: string, value: string): Sighting => ({
  of: "assignment",
  task: id,
  claim: `claim of ${id}`,
  value,
});
const report = (id: string, status: "succeeded" | "failed", isPermanent = false): Sighting => ({
  of: "report",
  task: id,
  claim: `claim of ${id}`,
  status,
  isPermanent,
});

/** "p" is active, "d" stands by. */
const begun: Commit = [gateway("p", "active"), lock("p", 1n), gateway("d", "standby")];
const failed: Commit = [gateway("p", "failed"), lock(null, null)];
const activated: Commit = [gateway("d", "active"), lock("d", 2n)];
const failedBack: Commit = [gateway("d", "standby"), gateway("p", "active"), lock("p", 3n)];

const queued: Commit = [task("t", "pending")];
const running: Commit = [claimed("t", "running")];
const succeeded: Commit = [claimed("t", "succeeded"), version(2), rotated];
/** The end of a first attempt that is repeated by "u". */
const triedAgain = (status: "failed" | "timed_out", fields: Partial<TaskChange> = {}): Change[] => [
  claimed("t", status),
  task("u", "pending", { attempt: 2, retryOf: "t", ...fields }),
];

/** What comes after `begun`, and what others were told. */
type History = readonly [commits: readonly Commit[], sightings?: readonly Sighting[]];

const contradictionsOf = ([commits, sightings]: History) =>
  findContradictions([begun, ...commits], sightings).map(({ what }) => what);

describe("The history of failovers", () => {
  const sound: Readonly<Record<string, History>> = {
    "a failover and a failback": [[failed, activated, failedBack]],
    "a DR gateway that fails and comes back": [[[gateway("d", "failed")], [gateway("d", "standby")]]],
    "an active gateway that has restarted": [
      [[gateway("p", "active", { instance: "second" }), lock("p", 2n)]],
      [
        { of: "standing", gateway: "p", token: 1n },
        { of: "standing", gateway: "p", token: 2n },
      ],
    ],
    "a rotation": [
      [queued, running, succeeded],
      [assignment("t", "v"), report("t", "succeeded")],
    ],
    "a rotation of which the report's answer got lost": [[queued, running, succeeded], [assignment("t", "v")]],
    "a rotation in another environment under its own token": [
      [
        [
          { ...gateway("p of f", "active"), environment: "f" },
          { ...lock("p of f", 7n), environment: "f" },
        ],
        [task("t", "pending", { environment: "f", gateway: "p of f" })],
        [claimed("t", "running", { environment: "f", gateway: "p of f", token: 7n })],
        [claimed("t", "succeeded", { environment: "f", gateway: "p of f", token: 7n }), version(2), rotated],
      ],
    ],
    "a rotation that takes two attempts": [
      [
        queued,
        running,
        triedAgain("failed"),
        [claimed("u", "running", { attempt: 2, retryOf: "t" })],
        [claimed("u", "succeeded", { attempt: 2, retryOf: "t" }), version(2), rotated],
      ],
      [
        assignment("t", "v"),
        report("t", "failed"),
        assignment("u", "v"),
        report("u", "succeeded"),
        { of: "value", secret: "s", version: 2, value: "v" },
      ],
    ],
    "a rotation that fails for good": [
      [queued, running, [claimed("t", "failed")]],
      [assignment("t", "v"), report("t", "failed", true)],
    ],
    "a task that runs while its gateway is replaced": [
      [
        queued,
        running,
        [...failed, ...triedAgain("timed_out", { gateway: null })],
        [...activated, task("u", "pending", { attempt: 2, retryOf: "t", gateway: "d" })],
      ],
    ],
    "a last attempt that times out": [
      [[task("t", "pending", { maxAttempts: 1 })], [claimed("t", "running", { maxAttempts: 1 })]].concat([
        [claimed("t", "timed_out", { maxAttempts: 1 })],
      ]),
    ],
    "a task that waits while nobody is active": [[failed, [task("t", "pending", { gateway: null })]]],
    "a check by a gateway that stands by": [
      [
        [task("t", "pending", { type: "verify_secret", maxAttempts: 1, gateway: "d" })],
        [claimed("t", "running", { type: "verify_secret", maxAttempts: 1, gateway: "d", token: null })],
        [claimed("t", "succeeded", { type: "verify_secret", maxAttempts: 1, gateway: "d", token: null })],
      ],
    ],
    "operations that were acknowledged": [
      [
        failed,
        [...activated, event("gateway.activate_dr", { requestId: "1" })],
        [...failedBack, event("gateway.failback", { requestId: "2" })],
        [event("gateway.deactivate", { requestId: "3" })],
      ],
      [
        { of: "operation", action: "gateway.activate_dr", requestId: "1", token: 2n },
        { of: "operation", action: "gateway.failback", requestId: "2" },
        { of: "operation", action: "gateway.deactivate", requestId: "3" },
      ],
    ],
  };
  for (const [what, history] of Object.entries(sound)) {
    it(`agrees with ${what}`, () => {
      expect(contradictionsOf(history)).to.deep.equal([]);
    });
  }

  /** Each breaks the rule that it is listed under. */
  const unsound: Readonly<Record<string, Readonly<Record<string, History>>>> = {
    "two active gateways": {
      "of which one holds the lock": [[activated]],
      "of which neither holds the lock": [[[gateway("d", "active"), lock(null, null)]]],
    },
    "holder that is not the active gateway": {
      "since another one is": [[[gateway("p", "standby"), gateway("d", "active")]]],
      "since nobody is": [[[gateway("p", "failed")]]],
      "since nobody holds": [[[lock(null, null)]]],
      "between two commits only": [[[lock("d", 2n)], [gateway("p", "standby"), gateway("d", "active")]]],
    },
    "token that does not rise": {
      "although it passes to another": [[[gateway("p", "failed"), gateway("d", "active"), lock("d", 1n)]]],
      "past a time without any": [[failed, [gateway("d", "active"), lock("d", 1n)]]],
      "but falls": [[[lock("p", 5n)], [lock("p", 4n)]]],
    },
    "restart that kept its token": {
      "": [[[gateway("p", "active", { instance: "second" })]]],
    },
    "transition that does not exist": {
      "of a DR gateway that is active from the start": [[failed, [gateway("e", "active"), lock("e", 2n)]]],
      "of a primary that returns by itself": [[failed, [gateway("p", "standby")]]],
      "of a failed DR gateway that is activated": [[[gateway("d", "failed")], failed, activated]],
    },
    "step that does not exist": {
      "of a task that begins at its end": [[[claimed("t", "succeeded"), version(2), rotated]]],
      "of a task that was never claimed": [[queued, [claimed("t", "failed")]]],
      "of a task that runs and waits again": [[queued, running, [task("t", "pending")]]],
    },
    "change after the end": {
      "by a second end": [
        [queued, running, [claimed("t", "failed")], [claimed("t", "succeeded"), version(2), rotated]],
      ],
      "by another gateway": [[queued, running, [claimed("t", "failed")], [claimed("t", "failed", { gateway: "d" })]]],
    },
    "task that became another": {
      "with one more attempt": [[queued, [task("t", "pending", { attempt: 2 })]]],
    },
    "claim that is not its own": {
      "but that of another task": [
        [queued, [claimed("t", "running")], [claimed("t", "failed")]].concat([
          [task("u", "pending", { config: "d" })],
          [task("u", "running", { config: "d", claim: "claim of t", token: 1n })],
        ]),
      ],
    },
    "running task that is not with the holder": {
      "since it was claimed under another token": [[queued, [claimed("t", "running", { token: 2n })]]],
      "since it was claimed by another gateway": [[queued, [claimed("t", "running", { gateway: "d" })]]],
      "since the holder was replaced": [[queued, running, failed]],
      "since the holder has a new token": [[queued, running, [lock("p", 2n)]]],
    },
    "pending task that is not with the holder": {
      "but with nobody": [[[task("t", "pending", { gateway: null })]]],
      "but with the one before": [[queued, failed]],
    },
    "report under a token that is not the current one": {
      "after a failover": [[queued, running, [...failed, claimed("t", "succeeded"), version(2), rotated]]],
    },
    "end of another claim": {
      "by a report": [[queued, running, [claimed("t", "succeeded", { claim: "another" }), version(2), rotated]]],
      "under another token": [[queued, running, [lock("p", 2n), claimed("t", "failed", { token: 2n })]]],
    },
    "check by who does not stand by": {
      "but is active": [
        [
          [task("t", "pending", { type: "verify_secret" })],
          [claimed("t", "running", { type: "verify_secret", token: null })],
        ],
      ],
      "but was taken out of service": [
        [
          [gateway("d", "standby", { isDeactivated: true })],
          [task("t", "pending", { type: "verify_secret", gateway: "d" })],
          [claimed("t", "running", { type: "verify_secret", gateway: "d", token: null })],
        ],
      ],
    },
    "later attempt at nothing": { "": [[[task("t", "pending", { attempt: 2 })]]] },
    "retry that does not continue its chain": {
      "but skips an attempt": [[queued, running, triedAgain("failed", { attempt: 3 })]],
      "but that of another secret": [[queued, running, triedAgain("failed", { config: "d" })]],
      "but goes past the last attempt": [[queued, running, triedAgain("failed", { maxAttempts: 1 })]],
      "that succeeded": [[queued, running, succeeded, [task("u", "pending", { attempt: 2, retryOf: "t" })]]],
      "that runs": [[queued, running, [task("u", "pending", { attempt: 2, retryOf: "t" })]]],
    },
    "second retry": {
      "of one attempt": [
        [queued, running, triedAgain("timed_out"), [task("w", "pending", { attempt: 2, retryOf: "t" })]],
      ],
    },
    "timeout that is not tried again": {
      "at all": [[queued, running, [claimed("t", "timed_out")]]],
      "in the same commit": [
        [queued, running, [claimed("t", "timed_out")], [task("u", "pending", { attempt: 2, retryOf: "t" })]],
      ],
    },
    "rotation that is not one task, one version and one event": {
      "but two versions": [[queued, running, [...succeeded, version(3)]]],
      "but no version": [[queued, running, [claimed("t", "succeeded"), rotated]]],
      "but a version of another secret": [[queued, running, [claimed("t", "succeeded"), version(2, "r"), rotated]]],
      "but a version without a task": [[[version(2), rotated]]],
      "but a version of a failure": [[queued, running, [claimed("t", "failed"), version(2), rotated]]],
      "but one that is not recorded": [[queued, running, [claimed("t", "succeeded"), version(2)]]],
      "but one that is recorded twice": [[queued, running, [...succeeded, rotated]]],
    },
    "standing that was never given": {
      "": [[], [{ of: "standing", gateway: "p", token: 2n }]],
      "to this gateway": [[], [{ of: "standing", gateway: "d", token: 1n }]],
    },
    "assignment that nobody claimed": {
      "": [[queued], [assignment("t", "v")]],
    },
    "retry with another value": {
      "than the attempt before": [
        [queued, running, triedAgain("failed"), [claimed("u", "running", { attempt: 2, retryOf: "t" })]],
        [assignment("t", "v"), assignment("u", "w")],
      ],
    },
    "accepted report that is not kept": {
      "of a success": [[queued, running, [claimed("t", "failed")]], [report("t", "succeeded")]],
      "of a task that has not ended": [[queued, running], [report("t", "failed", true)]],
      "of another claim": [
        [queued, running, succeeded],
        [{ of: "report", task: "t", claim: "another", status: "succeeded", isPermanent: false }],
      ],
    },
    "failure that is not tried again": {
      "": [[queued, running, [claimed("t", "failed")]], [report("t", "failed")]],
    },
    "acknowledged operation that did not happen": {
      "": [[failed, activated], [{ of: "operation", action: "gateway.activate_dr", requestId: "1", token: 2n }]],
      "under this token": [
        [failed, [...activated, event("gateway.activate_dr", { requestId: "1" })]],
        [{ of: "operation", action: "gateway.activate_dr", requestId: "1", token: 3n }],
      ],
      "in the same commit": [
        [failed, activated, [event("gateway.activate_dr", { requestId: "1" })]],
        [{ of: "operation", action: "gateway.activate_dr", requestId: "1", token: 2n }],
      ],
      "but another one": [
        [failed, activated, [...failedBack, event("gateway.failback", { requestId: "1" })]],
        [{ of: "operation", action: "gateway.deactivate", requestId: "1" }],
      ],
      "to the primary": [
        [failed, [...activated, event("gateway.failback", { requestId: "1" })]],
        [{ of: "operation", action: "gateway.failback", requestId: "1" }],
      ],
    },
    "version with a value that nobody applied": {
      "": [
        [queued, running, succeeded],
        [assignment("t", "v"), { of: "value", secret: "s", version: 2, value: "w" }],
      ],
    },
  };
  for (const [rule, cases] of Object.entries(unsound)) {
    for (const [how, history] of Object.entries(cases)) {
      it(`finds "${rule}" ${how}`.trim(), () => {
        expect([...new Set(contradictionsOf(history))]).to.include(rule);
      });
    }
  }
});
