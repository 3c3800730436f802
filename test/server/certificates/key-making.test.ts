import { expect } from "chai";
import { KeyMaking } from "../../../src/server/certificates/key-making.ts";

const rsa = { algorithm: "RSA", size: 2048 } as const;
const { signal } = new AbortController();

describe("Keys that are made for calls", () => {
  it("are made one at a time when they are of RSA, for organizations in turn", async () => {
    const keys = new KeyMaking();
    const made: string[] = [];
    const make = async (organizationId: string) => {
      const { privateKey } = await keys.make(rsa, organizationId, signal);
      expect(privateKey.asymmetricKeyType).to.equal("rsa");
      made.push(organizationId);
    };

    await Promise.all(["a", "a", "a", "b", "c"].map(make));

    expect(made).to.deep.equal(["a", "b", "a", "c", "a"]);
  });

  it("wait for none when they are on a curve", async () => {
    const keys = new KeyMaking();
    const made: string[] = [];
    const slow = Array.from({ length: 8 }, () => keys.make(rsa, "a", signal).then(() => made.push("RSA")));
    const quick = keys.make({ algorithm: "ECDSA", size: 256 }, "a", signal).then(() => made.push("ECDSA"));

    await Promise.all([...slow, quick]);

    expect(made.indexOf("ECDSA")).to.be.below(2);
  });

  it("are refused as 503 to who would wait too long, and nobody else waits for those", async () => {
    const keys = new KeyMaking(1);
    const first = keys.make({ algorithm: "RSA", size: 4096 }, "a", signal);
    const error = await keys.make(rsa, "b", signal).catch((refusal: unknown) => refusal);
    await first;

    expect(error).to.include({ errorCode: "SERVICE_UNAVAILABLE", retryAfterSeconds: 1 });
    expect((await keys.make(rsa, "c", signal)).publicKey.asymmetricKeyType).to.equal("rsa");
  });

  it("are not made for who has gone away", async () => {
    const keys = new KeyMaking();
    const gone = new AbortController();
    const made: string[] = [];
    const first = keys.make(rsa, "a", signal).then(() => made.push("first"));
    const given = keys.make(rsa, "b", gone.signal).catch((reason: unknown) => reason);
    const last = keys.make(rsa, "c", signal).then(() => made.push("last"));
    const why = new Error("gone");

    gone.abort(why);

    expect(await given).to.equal(why);
    await Promise.all([first, last]);
    expect(made).to.deep.equal(["first", "last"]);
    expect(await keys.make(rsa, "b", gone.signal).catch((reason: unknown) => reason)).to.equal(why);
  });
});
