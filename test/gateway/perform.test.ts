import { expect } from "chai";
import { pino } from "pino";
import { type Assignment, type Driver, DriverError } from "../../src/gateway/drivers/driver.ts";
import { driversOf } from "../../src/gateway/drivers/drivers.ts";
import { perform } from "../../src/gateway/perform.ts";
import type { Outbound } from "../../src/outbound/outbound.ts";
import { assignmentOf, TestPermit } from "./assignment.ts";

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
  const noting = (fields: Partial<Driver> = {}): Driver => ({
    apply: async ({ value }) => {
      done.push(`apply ${value}`);
      return undefined;
    },
    verify: async ({ value }) => {
      done.push(`verify ${value}`);
    },
    ...fields,
  });
  const performedBy = (driver: Driver, assignment: Assignment = assignmentOf({})) =>
    perform(assignment, { findDriver: () => driver, permit, logger });
  const failing = (message: string, fields: Parameters<typeof assignmentOf>[0] = {}) =>
    performedBy(noting({ apply: () => Promise.reject(new DriverError(message)) }), assignmentOf(fields));
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

  it("reports what the target made at once: nobody else knows it", async () => {
    const outcome = await performedBy(noting({ apply: async () => "minted" }));

    expect(outcome).to.deep.equal({ case: "succeeded", value: { value: "minted" } });
    expect(done).to.deep.equal([]);
  });

  it("fails when the value is not in use afterwards", async () => {
    const outcome = await performedBy(noting({ verify: () => Promise.reject(new DriverError("login refused")) }));

    const message = "the value was applied, but is not in use: login refused";
    expect(outcome).to.deep.equal({ case: "failed", value: { message, permanent: false } });
  });

  it("fails for good when the driver says so", async () => {
    const fault = new DriverError("no such role", { permanent: true });

    const outcome = await performedBy(noting({ apply: () => Promise.reject(fault) }));

    expect(outcome).to.deep.equal({ case: "failed", value: { message: "no such role", permanent: true } });
    expect(done).to.deep.equal([]);
  });

  it("fails for good with a driver that is not there", async () => {
    const findDriver = driversOf({ commands: new Map(), outbound: {} as Outbound });

    const outcome = await perform(assignmentOf({ driver: "postgres_role" }), { findDriver, permit, logger });

    const message = "this gateway knows no driver postgres_role: update it";
    expect(outcome).to.deep.equal({ case: "failed", value: { message, permanent: true } });
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
        throw new DriverError("interrupted");
      },
    });

    const error = await performedBy(driver).catch((thrown: unknown) => thrown);

    expect(error).to.equal(reason);
  });

  it("tells of a fault of the program nothing but its kind, and logs where", async () => {
    const driver = noting({ apply: () => Promise.reject(new TypeError("cannot use the-candidate-value")) });

    const message = await messageOf(performedBy(driver));

    expect(message).to.equal("unexpected: TypeError");
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
