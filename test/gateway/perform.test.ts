import { expect } from "chai";
import { pino } from "pino";
import { z } from "zod";
import type { Assignment } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";
import { driversOf } from "../../src/gateway/drivers/drivers.ts";
import { perform } from "../../src/gateway/perform.ts";
import type { Outbound } from "../../src/outbound/outbound.ts";
import type { Applier } from "../../src/targets/drivers/driver.ts";
import { anyObject } from "../../src/targets/settings.ts";
import { TargetError } from "../../src/targets/target-error.ts";
import { TestPermit } from "../targets/drivers/assignment.ts";
import { assignmentOf } from "./assignment.ts";

describe("A task", () => {
  let permit: TestPermit;
  let done: string[];
  let log: string;
  beforeEach(() => {
    permit = new TestPermit();
    done = [];
    log = "";
  });

  const logger = pino({ level: "trace" }, { write: (line: string) => (log += line) });
  const noting = (fields: Partial<Applier> = {}): Applier => ({
    apply: async ({ value }) => {
      done.push(`apply ${value}`);
      return undefined;
    },
    verify: async ({ value }) => {
      done.push(`verify ${value}`);
    },
    ...fields,
  });
  const performedBy = (applier: Applier, assignment: Assignment = assignmentOf({})) => {
    const findDriver = () => ({ settings: anyObject, credentials: anyObject, applier });
    return perform(assignment, { findDriver, permit, logger });
  };
  const failing = (message: string, fields: Parameters<typeof assignmentOf>[0] = {}) =>
    performedBy(noting({ apply: () => Promise.reject(new TargetError("refused", message)) }), assignmentOf(fields));
  const messageOf = async (outcome: ReturnType<typeof perform>) => {
    const { value } = await outcome;
    return "message" in value ? value.message : undefined;
  };

  it("of a rotation applies the value, and then verifies it", async () => {
    const outcome = await performedBy(noting());

    expect(outcome).to.deep.equal({ case: "succeeded", value: {} });
    expect(done).to.deep.equal(["apply the-candidate-value", "verify the-candidate-value"]);
  });

  it("of a check only verifies", async () => {
    const outcome = await performedBy(noting(), assignmentOf({ type: "verify_secret" }));

    expect(outcome).to.deep.equal({ case: "succeeded", value: {} });
    expect(done).to.deep.equal(["verify the-candidate-value"]);
  });

  it("needs no credentials where there are none, whatever they would have to be", async () => {
    const credentials = z.strictObject({ admin_username: z.string() });
    const findDriver = () => ({ settings: anyObject, credentials, applier: noting() });

    const outcome = await perform(assignmentOf({ credentials: {} }), { findDriver, permit, logger });

    expect(outcome.case).to.equal("succeeded");
  });

  it("reports what the target made at once: nobody else knows it", async () => {
    const outcome = await performedBy(noting({ apply: async () => "minted" }));

    expect(outcome).to.deep.equal({ case: "succeeded", value: { value: "minted" } });
    expect(done).to.deep.equal([]);
  });

  it("fails when the value is not in use afterwards", async () => {
    const fault = new TargetError("refused", "login refused", { unchanged: true });

    const outcome = await performedBy(noting({ verify: () => Promise.reject(fault) }));

    const message = "the value was applied, but is not in use: login refused";
    expect(outcome).to.deep.equal({ case: "failed", value: { message, permanent: false, unchanged: false } });
  });

  const refused = () => Promise.reject(new TargetError("refused", "login refused", { unchanged: true }));

  it("leaves the target as it was when the value is refused afterwards, and the one before can be put back", async () => {
    const outcome = await performedBy(noting({ verify: refused, revert: async () => true }));

    const message = "the value was applied, but is not in use: login refused; the value before was put back";
    expect(outcome).to.deep.equal({ case: "failed", value: { message, permanent: false, unchanged: true } });
  });

  const vain: [string, () => Promise<boolean>][] = [
    ["is not", async () => false],
    ["cannot be", () => Promise.reject(new TargetError("unreachable", "gone"))],
  ];
  for (const [what, revert] of vain) {
    it(`does not know how the target is when the value before ${what} put back`, async () => {
      const outcome = await performedBy(noting({ verify: refused, revert }));

      const message = "the value was applied, but is not in use: login refused";
      expect(outcome).to.deep.equal({ case: "failed", value: { message, permanent: false, unchanged: false } });
    });
  }

  it("puts nothing back when it could not be found out whether the value is in use", async () => {
    const fault = new TargetError("unreachable", "gone");
    const reverted: string[] = [];
    const revert = async () => reverted.push("") > 0;

    const outcome = await performedBy(noting({ verify: () => Promise.reject(fault), revert }));

    expect(outcome).to.have.nested.property("value.unchanged", false);
    expect(reverted).to.deep.equal([]);
  });

  it("fails for good when the driver says so", async () => {
    const fault = new TargetError("refused", "no such role", { permanent: true });

    const outcome = await performedBy(noting({ apply: () => Promise.reject(fault) }));

    expect(outcome).to.deep.equal({
      case: "failed",
      value: { message: "no such role", permanent: true, unchanged: false },
    });
    expect(done).to.deep.equal([]);
  });

  it("fails for good with a driver that is not there", async () => {
    const findDriver = driversOf({ commands: new Map(), outbound: {} as Outbound });

    const outcome = await perform(assignmentOf({ driver: "of-tomorrow" }), { findDriver, permit, logger });

    const message = "this gateway knows no driver of-tomorrow: update it";
    expect(outcome).to.deep.equal({ case: "failed", value: { message, permanent: true, unchanged: true } });
  });

  it("fails for good with settings that are not understood, also of a server that is newer", async () => {
    const findDriver = driversOf({ commands: new Map(), outbound: {} as Outbound });
    const settings = { command: "rotate", of_tomorrow: true };

    const outcome = await perform(assignmentOf({ driver: "command", settings }), { findDriver, permit, logger });

    const message = "this gateway does not understand the settings of the driver: update it";
    expect(outcome).to.deep.equal({ case: "failed", value: { message, permanent: true, unchanged: true } });
  });

  it("gives a driver its settings with what was left out, and the candidates of earlier attempts", async () => {
    let given: unknown;
    const applier = noting({
      apply: async ({ settings, earlierCandidates }) => {
        given = { settings, earlierCandidates };
        return undefined;
      },
    });
    const findDriver = (name: string) => ({
      ...driversOf({ commands: new Map(), outbound: {} as Outbound })(name),
      applier,
    });
    const fields = { driver: "command", settings: { command: "rotate" }, earlierCandidates: ["newer", "older"] };

    await perform(assignmentOf(fields), { findDriver, permit, logger });

    expect(given).to.deep.equal({
      settings: { command: "rotate", parameters: {} },
      earlierCandidates: ["newer", "older"],
    });
  });

  it("says when the target is certainly as it was before", async () => {
    const fault = new TargetError("unreachable", "nobody is there", { unchanged: true });

    const outcome = await performedBy(noting({ apply: () => Promise.reject(fault) }));

    const failed = { message: "nobody is there", permanent: false, unchanged: true };
    expect(outcome).to.deep.equal({ case: "failed", value: failed });
  });

  it("fails for good when nobody knows what kind of task it is", async () => {
    const outcome = await performedBy(noting(), assignmentOf({ type: "explode" }));

    expect(outcome.case).to.equal("failed");
    expect(outcome.value).to.include({ permanent: true });
    expect(done).to.deep.equal([]);
  });

  it("with a generated value does nothing outside", async () => {
    const findDriver = driversOf({ commands: new Map(), outbound: {} as Outbound });

    const outcome = await perform(assignmentOf({ driver: "generated_value" }), { findDriver, permit, logger });

    expect(outcome).to.deep.equal({ case: "succeeded", value: {} });
  });

  it("ends with what the permit ends with, whatever the driver says", async () => {
    const reason = new Error("the lease has ended");
    const driver = noting({
      apply: async () => {
        permit.end(reason);
        throw new TargetError("unreachable", "interrupted");
      },
    });

    const error = await performedBy(driver).catch((thrown: unknown) => thrown);

    expect(error).to.equal(reason);
  });

  it("tells of a fault of the program nothing but its kind, and logs where", async () => {
    const driver = noting({ apply: () => Promise.reject(new TypeError("cannot use the-candidate-value")) });

    const { value } = await performedBy(driver);

    expect(value).to.deep.equal({ message: "unexpected: TypeError", permanent: false, unchanged: false });
    expect(log).to.include("perform.test.ts").and.not.include("the-candidate-value");
  });

  const secret = 'pä"ss\\ word/+1';
  const spellings: [string, string][] = [
    ["as it is", secret],
    ["as JSON writes it", JSON.stringify(secret)],
    ["as a URL writes it", encodeURIComponent(secret)],
    ["in base64", Buffer.from(secret).toString("base64")],
    ["in base64 for URLs", Buffer.from(secret).toString("base64url")],
    ["in hex", Buffer.from(secret).toString("hex")],
  ];
  const places: [string, Parameters<typeof assignmentOf>[0]][] = [
    ["the value", { value: secret }],
    ["the previous value", { previousValue: secret }],
    ["a candidate of an earlier attempt", { earlierCandidates: ["an-earlier-one", secret] }],
    ["a credential", { credentials: { headers: { authorization: secret } } }],
    ["a credential in a list", { credentials: { keys: ["a-first-key", secret] } }],
  ];
  for (const [place, fields] of places) {
    for (const [how, spelling] of spellings) {
      it(`tells nothing of ${place} ${how}`, async () => {
        expect(await messageOf(failing(`cannot log in with ${spelling} here`, fields))).to.match(
          /^cannot log in with "?\[redacted\]"? here$/,
        );
      });
    }
  }

  it("tells nothing of a number among the credentials", async () => {
    expect(await messageOf(failing("PIN 8731 is wrong", { credentials: { pin: 8731 } }))).to.equal(
      "PIN [redacted] is wrong",
    );
  });

  it("tells nothing of one line of a value that has several", async () => {
    const value = "-----BEGIN KEY-----\r\nMIIBVgIBADANBg\r\n-----END KEY-----\n";

    expect(await messageOf(failing("bad: MIIBVgIBADANBg", { value }))).to.equal("bad: [redacted]");
  });

  it("takes out a secret as a whole also when another one is a part of it", async () => {
    expect(await messageOf(failing("no hunter22 here", { value: "hunter22", previousValue: "hunter" }))).to.equal(
      "no [redacted] here",
    );
  });

  it("tells its reason in one line of at most 1000 characters, without what could move a cursor", async () => {
    const message = await messageOf(failing(`a\u001b[31m\n\tb\u202e\u2028${"ß".repeat(2000)}`));

    expect(message).to.match(/^a \[31m b ß+$/);
    expect(message?.length).to.equal(1000);
  });

  it("always tells a reason", async () => {
    expect(await messageOf(failing(" \n"))).to.equal("no reason was given");
  });
});
