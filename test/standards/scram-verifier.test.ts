import { createHmac } from "node:crypto";
import { expect } from "chai";
import { scramVerifier } from "../../src/standards/scram-verifier.ts";

describe("A verifier of SCRAM-SHA-256", () => {
  it("proves what the example of RFC 7677 proves", async () => {
    const salt = Buffer.from("W22ZaJ0SNY7soEsUEjb6gQ==", "base64");
    const nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const exchange = `n=user,r=rOprNGfwEbeRWgbNEkqO,r=${nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=${nonce}`;

    const verifier = await scramVerifier("pencil", salt);

    const [, serverKey = ""] =
      /^SCRAM-SHA-256\$4096:W22ZaJ0SNY7soEsUEjb6gQ==\$[\w+/]{43}=:(.{44})$/.exec(verifier) ?? [];
    const signature = createHmac("sha256", Buffer.from(serverKey, "base64")).update(exchange).digest("base64");
    expect(signature).to.equal("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
  });

  it("is another one each time", async () => {
    expect(await scramVerifier("pencil")).to.not.equal(await scramVerifier("pencil"));
  });
});
