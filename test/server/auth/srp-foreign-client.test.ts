import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { SRP, SrpClient, type SrpParams, SrpServer } from "fast-srp-hap";
import { opensslPower } from "../../../src/server/auth/srp-power.ts";
import {
  clientKeys,
  type Group,
  proveLogin,
  rfc5054Group3072,
  serverKeys,
  verifierFor,
  verifyLogin,
} from "../../../src/standards/srp.ts";
import { hash, pad, serverSecret, toInteger } from "../../../src/standards/srp-formulas.ts";

/** A group as fast-srp-hap has it, for our side. */
const groupOf = ({ N, g, N_length_bits }: SrpParams): Group => ({
  name: `rfc5054-${N_length_bits}`,
  prime: BigInt(`0x${N.toString(16)}`),
  generator: BigInt(`0x${g.toString(16)}`),
  length: N_length_bits / 8,
  hash: "SHA-256",
});

const user = () => ({
  username: "alice",
  password: `pässwörd ${randomBytes(6).toString("base64")}`,
  salt: randomBytes(16),
});

/** The server's half, up to the proof; the client is theirs. */
async function login(params: SrpParams, isHap: boolean) {
  const group = groupOf(params);
  const { username, password, salt } = user();
  const verifier = await verifierFor(group, salt, username, password);
  const keys = await serverKeys(group, verifier, opensslPower);
  const client = new SrpClient(params, salt, Buffer.from(username), Buffer.from(password), randomBytes(32), isHap);
  client.setB(Buffer.from(keys.publicKey));
  const clientProof = client.computeM1();
  const clientPublicKey = client.computeA();
  const answer = await verifyLogin(
    { group, username, salt, verifier, keys, clientPublicKey, clientProof },
    opensslPower,
  );
  return { group, username, password, salt, verifier, keys, client, clientPublicKey, clientProof, answer };
}

describe("SRP with fast-srp-hap", () => {
  it("is about the same 3072-bit group", () => {
    expect(groupOf(SRP.params[3072])).to.deep.equal(rfc5054Group3072);
  });

  for (const bits of [2048, 3072, 4096] as const) {
    const params = { ...SRP.params[bits], hash: "sha256" };

    it(`logs its client in at our server, which proves itself to it: ${bits} bits`, async () => {
      for (let round = 0; round < 3; round++) {
        const { client, answer } = await login(params, true);

        expect(answer).not.to.equal(undefined);
        expect(() => client.checkM2(Buffer.from(answer ?? []))).not.to.throw();
      }
    });

    it(`logs our client in at its server, which proves itself to it: ${bits} bits`, async () => {
      const group = groupOf(params);
      const { username, password, salt } = user();
      const server = new SrpServer(params, salt, Buffer.from(username), Buffer.from(password), randomBytes(32));
      const keys = clientKeys(group);
      const proofs = await proveLogin({ group, username, password, salt, keys, serverPublicKey: server.computeB() });

      server.setA(Buffer.from(keys.publicKey));

      expect(() => server.checkM1(Buffer.from(proofs.clientProof))).not.to.throw();
      expect(Buffer.from(proofs.serverProof)).to.deep.equal(server.computeM2());
    });

    it(`makes the same verifier: ${bits} bits`, async () => {
      const { username, password, salt } = user();

      const theirs = SRP.computeVerifier(params, salt, Buffer.from(username), Buffer.from(password));

      expect(Buffer.from(await verifierFor(groupOf(params), salt, username, password))).to.deep.equal(theirs);
    });
  }

  it("accepts its other proof, H(A | B | S), and answers H(A | M1 | S)", async () => {
    const { group, keys, verifier, clientPublicKey, clientProof, answer } = await login(SRP.params[3072], false);

    const [b, v] = [toInteger(keys.privateKey), toInteger(verifier)];
    const [A, B] = [toInteger(clientPublicKey), toInteger(keys.publicKey)];
    const S = pad(group, await serverSecret(group, b, v, A, B, opensslPower));
    expect(answer).to.deep.equal(await hash(group, clientPublicKey, clientProof, S));
  });

  it("refuses its client with another password", async () => {
    const { group, username, salt, verifier, keys } = await login(SRP.params[3072], true);
    const client = new SrpClient(SRP.params[3072], salt, Buffer.from(username), Buffer.from("other"), randomBytes(32));
    client.setB(Buffer.from(keys.publicKey));

    const answer = await verifyLogin(
      { group, username, salt, verifier, keys, clientPublicKey: client.computeA(), clientProof: client.computeM1() },
      opensslPower,
    );

    expect(answer).to.equal(undefined);
  });
});
