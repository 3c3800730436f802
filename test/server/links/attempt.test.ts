import { setImmediate } from "node:timers/promises";
import { inspect } from "node:util";
import { expect } from "chai";
import { attempt } from "../../../src/server/links/attempt.ts";
import { TargetError } from "../../../src/targets/target-error.ts";

describe("attempt at a link's place", () => {
  it("is not begun for a caller who has gone already, and ends no process by that", async () => {
    const unhandled: unknown[] = [];
    const listener = (reason: unknown) => void unhandled.push(reason);
    process.on("unhandledRejection", listener);
    let begun = false;

    const failure: unknown = await attempt(
      async () => {
        begun = true;
      },
      AbortSignal.abort(new Error("gone")),
    ).catch((error: unknown) => error);
    await setImmediate();
    process.off("unhandledRejection", listener);

    expect(failure).to.be.instanceOf(Error).with.property("message", "gone");
    expect(begun).to.equal(false);
    expect(unhandled).to.deep.equal([]);
  });

  it("repeats nothing of what a fault of the program says, and keeps where it was", async () => {
    const work = async () => {
      JSON.parse("s3cret");
    };

    const failure: unknown = await attempt(work, new AbortController().signal).catch((error: unknown) => error);

    expect(failure).to.be.instanceOf(TargetError).with.property("code", "invalid");
    const shown = inspect(failure, { depth: null });
    expect(shown).to.include("SyntaxError").and.to.include("attempt.test.ts");
    expect(shown).not.to.include("s3cret");
  });
});
