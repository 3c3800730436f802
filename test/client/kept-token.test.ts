import { expect } from "chai";
import { KeptToken } from "../../src/client/kept-token.ts";

/** Logins one after the other, each with a token of its own. */
function logins(lifeMs: number) {
  let count = 0;
  const login = async () => {
    count += 1;
    return { token: `token-${count}`, expiresAt: new Date(Date.now() + lifeMs) };
  };
  return { login, count: () => count };
}

const failing = () => Promise.reject(new Error("the server is away"));

describe("A token that is kept", () => {
  it("is got once for all that want it", async () => {
    const kept = new KeptToken();
    const { login, count } = logins(3_600_000);

    const tokens = await Promise.all([kept.get(login), kept.get(login)]);
    tokens.push(await kept.get(login));

    expect(tokens).to.deep.equal(["token-1", "token-1", "token-1"]);
    expect(count()).to.equal(1);
  });

  it("is another one when the one before is about to end, or was refused", async () => {
    const kept = new KeptToken();
    const { login } = logins(20_000);
    const { login: longer } = logins(3_600_000);

    expect([await kept.get(login), await kept.get(login)]).to.deep.equal(["token-1", "token-2"]);
    await kept.get(longer);
    kept.discard();
    expect(await kept.get(longer)).to.equal("token-2");
  });

  it("serves while it holds although there is no new one", async () => {
    const kept = new KeptToken();
    await kept.get(logins(300_000).login);
    const { now } = Date;
    let tries = 0;
    const failingOnce = () => {
      tries += 1;
      return failing();
    };
    try {
      // Time for another one, and the end is near.
      Date.now = () => now() + 250_000;

      expect([await kept.get(failingOnce), await kept.get(failingOnce)]).to.deep.equal(["token-1", "token-1"]);
      expect(tries).to.equal(1);
    } finally {
      Date.now = now;
    }
  });

  it("is asked for again after a login that failed", async () => {
    const kept = new KeptToken();
    const { login } = logins(3_600_000);

    const refused = await kept.get(failing).catch((error: Error) => error.message);

    expect(refused).to.equal("the server is away");
    expect(await kept.get(login)).to.equal("token-1");
  });
});
