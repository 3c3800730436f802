import { setImmediate as soon } from "node:timers/promises";
import { expect } from "chai";
import { FairQueue } from "../../src/server/fair-queue.ts";

const { signal } = new AbortController();

describe("Work that is done in turn", () => {
  let queue: FairQueue;
  let begun: string[];
  let end: PromiseWithResolvers<void>[];
  beforeEach(() => {
    queue = new FairQueue("too much is being done");
    begun = [];
    end = [];
  });

  /** Work that lasts until its `end`; each is a number behind the organization. */
  const ask = (organizationId: string, by = signal, to = queue) =>
    to.run(organizationId, by, async () => {
      begun.push(organizationId);
      const until = Promise.withResolvers<void>();
      end.push(until);
      await until.promise;
    });
  /** Ends all work, one after the other, and answers in which order it was begun. */
  async function order(): Promise<string> {
    for (let at = 0; at < begun.length; at += 1) {
      end[at]?.resolve();
      await soon();
    }
    return begun.join("");
  }

  it("is one piece at a time, of one organization after the other, whoever asked for more before", async () => {
    const asked = [..."aaaabcab"].map((each) => ask(each));
    await soon();
    expect(begun).to.deep.equal(["a"]);

    expect(await order()).to.equal("abacbaaa");
    await Promise.all(asked);
  });

  it("begins at once when nothing else is done, also after what failed", async () => {
    const failed = queue.run("a", signal, () => Promise.reject(new Error("broken")));
    const behind = ask("a");

    expect(await failed.catch((error: Error) => error.message)).to.equal("broken");
    await soon();
    expect(await order()).to.equal("a");
    await behind;
    const late = ask("b");
    expect(begun.join("")).to.equal("ab");
    end.at(-1)?.resolve();
    await late;
  });

  it("is refused as 503 to who would wait too long, and nobody waits for those", async () => {
    const impatient = new FairQueue("too much is being done", 1);
    const first = ask("a", signal, impatient);

    const error = await ask("b", signal, impatient).catch((refusal: unknown) => refusal);

    expect(error).to.include({ errorCode: "SERVICE_UNAVAILABLE", retryAfterSeconds: 1 });
    expect(await order()).to.equal("a");
    await first;
    const late = ask("c", signal, impatient);
    expect(await order()).to.equal("ac");
    await late;
  });

  it("is not begun for who has gone away", async () => {
    const gone = new AbortController();
    const first = ask("a");
    const given = ask("b", gone.signal).catch((reason: unknown) => reason);
    const last = ask("c");
    const why = new Error("gone");

    gone.abort(why);

    expect(await given).to.equal(why);
    expect(await order()).to.equal("ac");
    await Promise.all([first, last]);
    expect(await ask("b", gone.signal).catch((reason: unknown) => reason)).to.equal(why);
  });
});
