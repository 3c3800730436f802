import { expect } from "chai";
import { AnswerMemory, type RememberedAnswer } from "../../src/ocsp/answer-memory.ts";

const mebibyte = 1024 * 1024;

describe("The memory of OCSP answers", () => {
  const entry = (bytes: number): RememberedAnswer => ({
    answer: { der: new Uint8Array(bytes), thisUpdate: new Date(), nextUpdate: new Date(), hasNonce: false },
    says: "good",
    good: ["certificate"],
    order: 1,
    keyHash: new Uint8Array(20),
  });

  it("is bounded: what nobody asked for the longest makes room", () => {
    const memory = new AnswerMemory();

    for (let count = 0; count < 100; count += 1) {
      memory.set(`${count}`, 1, entry(mebibyte));
      memory.get("0");
    }

    const kept = Array.from({ length: 100 }, (_, count) => memory.get(`${count}`) !== undefined);
    expect(kept[0]).to.equal(true);
    expect(kept.at(-1)).to.equal(true);
    expect(kept.filter((isKept) => isKept).length).to.be.within(50, 60);
  });

  it("loses no answer about one certificate to queries about several, of which there is no end", () => {
    const memory = new AnswerMemory();
    memory.set("one", 1, entry(mebibyte));

    for (let count = 0; count < 100; count += 1) memory.set(`${count}`, 16, entry(mebibyte));

    expect(memory.get("one")).not.to.equal(undefined);
    expect(memory.get("99")).not.to.equal(undefined);
    expect(memory.get("90")).to.equal(undefined);
  });
});
