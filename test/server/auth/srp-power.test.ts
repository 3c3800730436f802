import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { opensslPower } from "../../../src/server/auth/srp-power.ts";
import {
  bigintPower,
  clientKeys,
  rfc5054Group3072 as group,
  IllegalParameter,
  proveLogin,
  serverKeys,
  verifierFor,
  verifyLogin,
} from "../../../src/standards/srp.ts";
import { toBytes, toInteger } from "../../../src/standards/srp-formulas.ts";

const random = (length: number) => toInteger(randomBytes(length));

describe("The server's power", () => {
  it("is the one of plain arithmetic, for random bases and exponents of any length", async () => {
    for (const length of [1, 2, 16, 31, 32, 32, 32, 33, 48, 64]) {
      const [base, exponent] = [2n + (random(390) % (group.prime - 4n)), 1n + random(length)];

      expect(await opensslPower(base, exponent, group), `${base}^${exponent}`).to.equal(
        bigintPower(base, exponent, group),
      );
    }
  });

  it("is the one of plain arithmetic at the ends of the range", async () => {
    for (const base of [2n, 3n, 5n, 127n, 128n, 255n, 256n, group.prime - 3n, group.prime - 2n]) {
      for (const exponent of [1n, 2n, 127n, 128n, 2n ** 255n, 2n ** 256n - 1n]) {
        expect(await opensslPower(base, exponent, group), `${base}^${exponent}`).to.equal(
          bigintPower(base, exponent, group),
        );
      }
    }
  });

  it("may begin with zeros", async () => {
    const exponent = 0x5c78fc51c51b6e7a23ccdb2e5487d99b5f6e490acbc076d68a659ae695714aefn;

    const power = await opensslPower(group.generator, exponent, group);

    expect(toBytes(power)).to.have.length(383);
    expect(power).to.equal(bigintPower(group.generator, exponent, group));
  });

  it("is of any prime, not only of those that OpenSSL knows", async () => {
    // The 1024-bit group of RFC 5054, appendix A.
    const prime = BigInt(
      "0xeeaf0ab9adb38dd69c33f80afa8fc5e86072618775ff3c0b9ea2314c9c256576d674df7496ea81d3383b4813d692c6e0e0d5d8e250b98be48e495c1d6089dad15dc7d7b46154d6b6ce8ef4ad69b15d4982559b297bcf1885c529f566660e57ec68edbc3c05726cc02fd4cbf4976eaa9afd5138fe8376435b9fc61d2fc0eb06e3",
    );
    const small = { name: "rfc5054-1024", prime, generator: 2n, length: 128, hash: "SHA-1" } as const;
    const [base, exponent] = [random(127), random(32)];

    expect(await opensslPower(base, exponent, small)).to.equal(bigintPower(base, exponent, small));
  });

  it("is refused for bases whose powers anybody knows", async () => {
    const { prime } = group;

    for (const base of [0n, 1n, prime - 1n, prime, prime + 1n, 2n * prime]) {
      const outcome = await opensslPower(base, random(32), group).catch((error: unknown) => error);
      expect(outcome, String(base)).to.be.instanceOf(IllegalParameter);
    }
  });

  it("is computed beside the event loop", async () => {
    let isDone = false;
    const power = opensslPower(5n, random(32), group).then(() => {
      isDone = true;
    });

    // Promises alone settle without the event loop; the answer of another thread does not.
    for (let turn = 0; turn < 1000; turn++) await Promise.resolve();

    expect(isDone).to.equal(false);
    await power;
  });

  it("serves the server's half of a login", async () => {
    const [username, password, salt] = ["alice", "correct horse", randomBytes(16)];
    const verifier = await verifierFor(group, salt, username, password);
    const client = clientKeys(group);
    const server = await serverKeys(group, verifier, opensslPower);
    const { clientProof, serverProof } = await proveLogin({
      group,
      username,
      password,
      salt,
      keys: client,
      serverPublicKey: server.publicKey,
    });

    const login = { group, username, salt, verifier, keys: server, clientPublicKey: client.publicKey };

    expect(await verifyLogin({ ...login, clientProof }, opensslPower)).to.deep.equal(serverProof);
    expect(await verifyLogin({ ...login, clientProof: serverProof }, opensslPower)).to.equal(undefined);
  });
});
