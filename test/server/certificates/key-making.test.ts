import { expect } from "chai";
import { makesKeys } from "../../../src/server/certificates/key-making.ts";

describe("Keys that are made for calls", () => {
  it("wait for none when they are on a curve, however many of RSA are to be made", async () => {
    const makeKey = makesKeys();
    const { signal } = new AbortController();
    const made: string[] = [];
    const make = async (kind: Parameters<typeof makeKey>[0]) => {
      const { privateKey } = await makeKey(kind, "a", signal);
      made.push(privateKey.asymmetricKeyType as string);
    };
    const slow = Array.from({ length: 8 }, () => make({ algorithm: "RSA", size: 2048 }));

    await Promise.all([...slow, make({ algorithm: "ECDSA", size: 256 })]);

    expect(made.indexOf("ec")).to.be.below(2);
    expect(made.filter((type) => type === "rsa")).to.have.length(8);
  });
});
