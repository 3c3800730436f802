import { setImmediate as nextTurn } from "node:timers/promises";
import { expect } from "chai";
import { Turns } from "../../../src/server/rotation/turns.ts";

/** Work that begins when it is its turn, and ends when told to. */
class Work {
  readonly begun: string[] = [];
  readonly #turns: Turns;
  readonly #ends = new Map<string, () => void>();

  constructor(turns: Turns) {
    this.#turns = turns;
  }

  at(host: string, name: string): Promise<string> {
    return this.#turns.take(host, async () => {
      this.begun.push(name);
      await new Promise<void>((resolve) => this.#ends.set(name, resolve));
      return name;
    });
  }

  async end(name: string): Promise<void> {
    this.#ends.get(name)?.();
    await nextTurn();
  }
}

describe("Turns", () => {
  it("let so many begin, and each of the others when one has ended, in their order", async () => {
    const work = new Work(new Turns(2, 2));
    const all = ["a", "b", "c", "d"].map((name) => work.at(name, name));
    await nextTurn();
    const atFirst = [...work.begun];

    await work.end("b");
    const then = [...work.begun];
    await work.end("a");
    await work.end("c");
    await work.end("d");

    expect(atFirst).to.deep.equal(["a", "b"]);
    expect(then).to.deep.equal(["a", "b", "c"]);
    expect(await Promise.all(all)).to.deep.equal(["a", "b", "c", "d"]);
  });

  it("let few begin at each host, and others go ahead of those that wait for theirs", async () => {
    const work = new Work(new Turns(3, 1));
    void work.at("slow", "1");
    void work.at("slow", "2");
    void work.at("quick", "3");
    await nextTurn();
    const atFirst = [...work.begun];

    await work.end("1");

    expect(atFirst).to.deep.equal(["1", "3"]);
    expect(work.begun).to.deep.equal(["1", "3", "2"]);
  });

  it("go on after work that fails", async () => {
    const turns = new Turns(1, 1);
    const failing = turns.take("a", () => Promise.reject(new Error("of the test")));

    const next = turns.take("a", async () => "done");

    expect(await failing.catch((error: Error) => error.message)).to.equal("of the test");
    expect(await next).to.equal("done");
  });
});
