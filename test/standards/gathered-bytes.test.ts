import { expect } from "chai";
import fc from "fast-check";
import { GatheredBytes } from "../../src/standards/gathered-bytes.ts";

describe("Bytes that are gathered", () => {
  it("are those of the pieces in their order, whatever their lengths; and the pieces stay as they are", () => {
    const pieces = fc.array(fc.uint8Array({ maxLength: 5000 }), { maxLength: 30 });
    fc.assert(
      fc.property(pieces, (given) => {
        const gathered = new GatheredBytes();
        const copies = given.map((piece) => Buffer.from(piece));

        for (const piece of given) gathered.add(Buffer.from(piece.buffer, piece.byteOffset, piece.length));

        expect(gathered.all().equals(Buffer.concat(copies))).to.equal(true);
        for (const [at, piece] of given.entries()) expect(copies[at]?.equals(piece)).to.equal(true);
      }),
    );
  });

  it("take little more than themselves, though they come one by one", () => {
    const gathered = new GatheredBytes();

    for (let at = 0; at < 100_000; at += 1) gathered.add(Buffer.from([at]));

    const { length, buffer } = gathered.all();
    expect(length).to.equal(100_000);
    expect(buffer.byteLength).to.be.at.most(2 * length);
  });
});
