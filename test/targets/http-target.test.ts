import { expect } from "chai";
import { OutboundError } from "../../src/outbound/outbound-error.ts";
import { notAnswered, refusalOf } from "../../src/targets/http-target.ts";
import { TargetError } from "../../src/targets/target-error.ts";

const answerOf = (status: number, headers: Record<string, string> = {}) => ({ status, headers, body: undefined });

describe("A target that answers over HTTP", () => {
  it("is worth another try as soon as it says so, in seconds or by a date", () => {
    const inSeconds = refusalOf("the target", answerOf(503, { "retry-after": "120" }));
    const date = new Date(Date.now() + 3_600_000).toUTCString();
    const byDate = refusalOf("the target", answerOf(429, { "retry-after": date }));

    expect(inSeconds).to.include({ permanent: false, retryAfterMs: 120_000 });
    expect(byDate.permanent).to.equal(false);
    expect(byDate.retryAfterMs).to.be.within(3_500_000, 3_600_000);
  });

  it("is worth another try when it asks for patience, also by a status that says that the client is wrong", () => {
    expect(refusalOf("the target", answerOf(403, { "retry-after": "60" })).permanent).to.equal(false);
    expect(refusalOf("the target", answerOf(403)).permanent).to.equal(true);
  });

  it("does not want to be left alone until a time that has passed, or that is none", () => {
    const past = new Date(Date.now() - 60_000).toUTCString();

    expect(refusalOf("the target", answerOf(503, { "retry-after": past })).retryAfterMs).to.equal(0);
    expect(refusalOf("the target", answerOf(503, { "retry-after": "soon" })).retryAfterMs).to.equal(undefined);
    expect(refusalOf("the target", answerOf(503, { "retry-after": "-5" })).retryAfterMs).to.equal(undefined);
    expect(refusalOf("the target", answerOf(503)).retryAfterMs).to.equal(undefined);
  });

  it("is named in what is told, which holds nothing of the answer but its status", () => {
    const { code, message } = refusalOf("the target", { ...answerOf(500), body: Buffer.from("hunter2") });

    expect({ code, message }).to.deep.equal({ code: "refused", message: "the target answered 500" });
  });

  it("is certainly unchanged when nothing was sent to it", () => {
    const failureOf = (error: unknown) => {
      try {
        return notAnswered("the target")(error);
      } catch (thrown) {
        return thrown;
      }
    };

    const unsent = failureOf(new OutboundError("unreachable", "ECONNREFUSED", { unsent: true }));
    const sent = failureOf(new OutboundError("timed_out", "no answer within 10 s"));
    const invalid = failureOf(new OutboundError("invalid", "no such port", { unsent: true }));
    const other = new Error("aborted");

    expect(unsent)
      .to.be.instanceOf(TargetError)
      .and.include({ code: "unreachable", message: "the target: ECONNREFUSED", permanent: false, unchanged: true });
    expect(sent).to.include({ code: "timed_out", permanent: false, unchanged: false });
    expect(invalid).to.include({ code: "invalid", permanent: true, unchanged: true });
    expect(failureOf(other)).to.equal(other);
  });
});
