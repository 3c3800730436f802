import { setTimeout as sleep } from "node:timers/promises";
import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { expect } from "chai";
import { Abandoned, type Term } from "../../src/gateway/authority.ts";
import { Link, type LinkClient } from "../../src/gateway/link.ts";
import type { Outcome } from "../../src/gateway/perform.ts";
import { Registration } from "../../src/gateway/registration.ts";
import { ReportRefused, Reports } from "../../src/gateway/reports.ts";
import { TestPermit } from "../targets/drivers/assignment.ts";
import { assignmentOf } from "./assignment.ts";

const succeeded: Outcome = { case: "succeeded", value: {} };

describe("A report", () => {
  let link: Link;
  let sent: { readonly taskId?: string; readonly fencingToken?: string; readonly outcome?: { case?: string } }[];
  let permit: TestPermit;
  let leaseHolds: boolean;
  let retryAfter: string | undefined;
  beforeEach(() => {
    retryAfter = undefined;
    link = new Link();
    sent = [];
    permit = new TestPermit();
    leaseHolds = true;
  });

  /** A server that answers one report after the other so: with an error of a code, or well. */
  function serverAnswering(...answers: (status | "taken")[]): LinkClient {
    const completeTask = async (report: (typeof sent)[number]) => {
      sent.push(report);
      const answer = answers.shift() ?? "taken";
      if (answer === "taken") return { status: "succeeded" };
      const error: ServiceError = Object.assign(new Error(), {
        code: answer,
        details: "why",
        metadata: new Metadata(),
      });
      if (retryAfter !== undefined) error.metadata.set("retry-after", retryAfter);
      throw error;
    };
    return { completeTask } as unknown as LinkClient;
  }

  const term: Term = {
    fencingToken: "5",
    signal: new AbortController().signal,
    check: () => {
      if (!leaseHolds) throw new Abandoned("the lease has ended");
    },
  };
  const registration = new Registration({ environment: "", identityClientId: "", name: "", region: "", role: "" });
  const send = (outcome: Outcome = succeeded) =>
    new Reports(link, registration).send({ assignment: assignmentOf({}), term, permit, outcome });
  const failure = (sending: Promise<unknown>) =>
    sending.then(
      () => expect.fail("it was taken"),
      (error: unknown) => error,
    );

  it("names the task and the token that it was claimed under", async () => {
    link.opened(serverAnswering());

    expect(await send()).to.equal(succeeded);
    expect(sent.length).to.equal(1);
    expect(sent[0]).to.include({ taskId: assignmentOf({}).taskId, fencingToken: "5", outcome: succeeded });
  });

  it("waits for a connection", async () => {
    const sending = send();
    link.opened(serverAnswering());

    expect(await sending).to.equal(succeeded);
  });

  it("is sent again, the same, until the server takes it", async () => {
    link.opened(
      serverAnswering(status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.RESOURCE_EXHAUSTED, status.INTERNAL),
    );

    expect(await send()).to.equal(succeeded);
    expect(sent.length).to.equal(5);
    expect(new Set(sent.map((report) => JSON.stringify(report))).size).to.equal(1);
  });

  it("is sent again over another connection", async () => {
    const first = serverAnswering(status.CANCELLED);
    link.opened(first);
    const sending = send();
    link.closed();
    link.opened(serverAnswering());

    expect(await sending).to.equal(succeeded);
    expect(sent.length).to.equal(2);
  });

  for (const code of [status.ABORTED, status.NOT_FOUND, status.FAILED_PRECONDITION, status.PERMISSION_DENIED]) {
    it(`is sent once when the server refuses it with ${status[code]}`, async () => {
      link.opened(serverAnswering(code));

      const error = await failure(send());

      expect(error).to.be.instanceOf(ReportRefused).and.include({ message: "why" });
      expect(sent.length).to.equal(1);
    });
  }

  it("says that the task failed when the value that the target made is refused", async () => {
    link.opened(serverAnswering(status.INVALID_ARGUMENT));

    const taken = await send({ case: "succeeded", value: { value: "\0" } });

    const failed = { case: "failed", value: { message: "the server refuses the value: why", permanent: true } };
    expect(taken).to.deep.equal(failed);
    expect(sent.at(-1)?.outcome).to.deep.equal(failed);
  });

  it("is not sent once the lease has ended, by the clock", async () => {
    link.opened(serverAnswering());
    leaseHolds = false;

    expect(await failure(send())).to.be.instanceOf(Abandoned);
    expect(sent).to.deep.equal([]);
  });

  it("is not sent again once the lease has ended meanwhile", async () => {
    link.opened(serverAnswering(status.UNAVAILABLE));
    const sending = failure(send());
    leaseHolds = false;

    expect(await sending).to.be.instanceOf(Abandoned);
    expect(sent.length).to.equal(1);
  });

  it("is not sent again once the time is over, by the clock", async () => {
    link.opened(serverAnswering(status.UNAVAILABLE));
    const over = new Error("no time left");
    permit.check = () => {
      throw over;
    };

    expect(await failure(send())).to.equal(over);
    expect(sent.length).to.equal(1);
  });

  it("of a failure that is refused as invalid is not sent in other words", async () => {
    link.opened(serverAnswering(status.INVALID_ARGUMENT));

    const error = await failure(send({ case: "failed", value: { message: "why", permanent: false } }));

    expect(error).to.be.instanceOf(ReportRefused);
    expect(sent.length).to.equal(1);
  });

  it("waits for as long as the limit of requests lasts", async () => {
    link.opened(serverAnswering(status.RESOURCE_EXHAUSTED));
    retryAfter = "60";
    const sending = failure(send());

    // Longer than it takes to try again otherwise.
    await sleep(400);
    permit.end();
    await sending;

    expect(sent.length).to.equal(1);
  });

  it("is not sent in other words once the lease has ended meanwhile", async () => {
    link.opened(serverAnswering(status.INVALID_ARGUMENT));
    const sending = failure(send({ case: "succeeded", value: { value: "\0" } }));
    leaseHolds = false;

    expect(await sending).to.be.instanceOf(Abandoned);
    expect(sent.length).to.equal(1);
  });

  it("is not waited for once there is no time left", async () => {
    const sending = failure(send());
    const reason = new Error("no time left");

    permit.end(reason);

    expect(await sending).to.equal(reason);
  });
});
