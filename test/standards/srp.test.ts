import { createHash, randomBytes } from "node:crypto";
import { expect } from "chai";
import {
  bigintPower,
  clientKeys,
  type Group,
  IllegalParameter,
  isSameProof,
  isVerifier,
  proveLogin,
  rfc5054Group3072,
  serverKeys,
  verifierFor,
  verifyLogin,
} from "../../src/standards/srp.ts";
import {
  clientSecret,
  hash,
  multiplier,
  pad,
  passwordKey,
  scrambler,
  serverSecret,
  toBytes,
  toInteger,
} from "../../src/standards/srp-formulas.ts";

const number = (hex: string) => BigInt(`0x${hex.replaceAll(/\s/g, "")}`);
const bytes = (hex: string) => Buffer.from(hex.replaceAll(/\s/g, ""), "hex");
const hexOf = (of: Uint8Array | undefined) => of && Buffer.from(of).toString("hex");
const sha256 = (of: Uint8Array) => createHash("sha256").update(of).digest("hex");

/** RFC 5054, appendix A. Small, so that many logins take little time. */
const rfc5054Group1024: Group = {
  name: "rfc5054-1024",
  prime: number(`EEAF0AB9 ADB38DD6 9C33F80A FA8FC5E8 60726187 75FF3C0B 9EA2314C 9C256576 D674DF74 96EA81D3 383B4813
    D692C6E0 E0D5D8E2 50B98BE4 8E495C1D 6089DAD1 5DC7D7B4 6154D6B6 CE8EF4AD 69B15D49 82559B29 7BCF1885 C529F566 660E57EC
    68EDBC3C 05726CC0 2FD4CBF4 976EAA9A FD5138FE 8376435B 9FC61D2F C0EB06E3`),
  generator: 2n,
  length: 128,
  hash: "SHA-1",
};

/** The inputs of RFC 5054, appendix B. */
const appendixB = {
  username: "alice",
  password: "password123",
  salt: bytes("BEB25379 D1A8581E B5A72767 3A2441EE"),
  a: bytes("60975527 035CF2AD 1989806F 0407210B C81EDC04 E2762A56 AFD529DD DA2D4393"),
  b: bytes("E487CB59 D31AC550 471E81F0 0F6928E0 1DDA08E9 74A004F4 9E61F5D1 05284D20"),
};

/** Inputs that give A, B and S a leading zero byte in the 3072-bit group, found by trying. */
const leadingZeros = {
  username: "alice",
  password: "pässwörd-€-🔑",
  salt: bytes("000102030405060708090a0b0c0d0e0f"),
  a: bytes("5c78fc51c51b6e7a23ccdb2e5487d99b5f6e490acbc076d68a659ae695714aef"),
  b: bytes("31e54a956ddb16d638cf91dfbb37d0f6409491ac60e422b5137812a6a237b360"),
};

/** Every value of a login with given private keys, as both sides compute it. */
async function exchange(group: Group, { username, password, salt, a, b }: typeof appendixB) {
  const verifier = await verifierFor(group, salt, username, password);
  const client = clientKeys(group, a);
  const server = await serverKeys(group, verifier, bigintPower, b);
  const proofs = await proveLogin({
    group,
    username,
    password,
    salt,
    keys: client,
    serverPublicKey: server.publicKey,
  });
  const x = await passwordKey(group, salt, username, password);
  const [A, B] = [toInteger(client.publicKey), toInteger(server.publicKey)];
  return {
    k: await multiplier(group),
    x,
    u: await scrambler(group, A, B),
    clientS: await clientSecret(group, toInteger(a), x, A, B, bigintPower),
    serverS: await serverSecret(group, toInteger(b), toInteger(verifier), A, B, bigintPower),
    verifier,
    client,
    server,
    proofs,
  };
}

describe("The values of SRP-6a", () => {
  it("are those of RFC 5054, appendix B", async () => {
    const values = await exchange(rfc5054Group1024, appendixB);

    expect(values.k).to.equal(number("7556AA04 5AEF2CDD 07ABAF0F 665C3E81 8913186F"));
    expect(values.x).to.equal(number("94B7555A ABE9127C C58CCF49 93DB6CF8 4D16C124"));
    expect(hexOf(values.verifier)).to.equal(
      hexOf(
        bytes(`7E273DE8 696FFC4F 4E337D05 B4B375BE B0DDE156 9E8FA00A 9886D812 9BADA1F1 822223CA 1A605B53 0E379BA4 729FDC59
          F105B478 7E5186F5 C671085A 1447B52A 48CF1970 B4FB6F84 00BBF4CE BFBB1681 52E08AB5 EA53D15C 1AFF87B2 B9DA6E04
          E058AD51 CC72BFC9 033B564E 26480D78 E955A5E2 9E7AB245 DB2BE315 E2099AFB`),
      ),
    );
    expect(hexOf(values.client.publicKey)).to.equal(
      hexOf(
        bytes(`61D5E490 F6F1B795 47B0704C 436F523D D0E560F0 C64115BB 72557EC4 4352E890 3211C046 92272D8B 2D1A5358 A2CF1B6E
          0BFCF99F 921530EC 8E393561 79EAE45E 42BA92AE ACED8251 71E1E8B9 AF6D9C03 E1327F44 BE087EF0 6530E69F 66615261
          EEF54073 CA11CF58 58F0EDFD FE15EFEA B349EF5D 76988A36 72FAC47B 0769447B`),
      ),
    );
    expect(hexOf(values.server.publicKey)).to.equal(
      hexOf(
        bytes(`BD0C6151 2C692C0C B6D041FA 01BB152D 4916A1E7 7AF46AE1 05393011 BAF38964 DC46A067 0DD125B9 5A981652 236F99D9
          B681CBF8 7837EC99 6C6DA044 53728610 D0C6DDB5 8B318885 D7D82C7F 8DEB75CE 7BD4FBAA 37089E6F 9C6059F3 88838E7A
          00030B33 1EB76840 910440B1 B27AAEAE EB4012B7 D7665238 A8E3FB00 4B117B58`),
      ),
    );
    expect(values.u).to.equal(number("CE38B959 3487DA98 554ED47D 70A7AE5F 462EF019"));
    const premasterSecret =
      number(`B0DC82BA BCF30674 AE450C02 87745E79 90A3381F 63B387AA F271A10D 233861E3 59B48220 F7C4693C 9AE12B0A 6F67809F
        0876E2D0 13800D6C 41BB59B6 D5979B5C 00A172B4 A2A5903A 0BDCAF8A 709585EB 2AFAFA8F 3499B200 210DCC1F 10EB3394
        3CD67FC8 8A2F39A4 BE5BEC4E C0A3212D C346D7E4 74B29EDE 8A469FFE CA686E5A`);
    expect(values.clientS).to.equal(premasterSecret);
    expect(values.serverS).to.equal(premasterSecret);
  });

  // The expected values of these two were computed by another program, in another language.
  it("are the known answers of the 3072-bit group with SHA-256", async () => {
    const { k, x, u, verifier, client, server, clientS, serverS, proofs } = await exchange(rfc5054Group3072, appendixB);

    expect(sha256(toBytes(rfc5054Group3072.prime))).to.equal(
      "48cf8b092fbce4359d9871abf74f98e25b6163379eaa15cd9087e800c6d1c55c",
    );
    expect(k).to.equal(number("081f4874fa543a371b49a670402fda59ecfab53a1b850fc42e1c357cc846111e"));
    expect(x).to.equal(number("0065ac38dff8bc34ae0f259e91fbd0f4ca2fa43081c9050cec7cac20d015f303"));
    expect(sha256(verifier)).to.equal("441f8c6b6d4cc61d14377bd1bfcbd90e02c2456c925b499a338625d85ecaa5d3");
    expect(sha256(client.publicKey)).to.equal("71f46d1d2c9ec34bdc2f84272e74d959c24c07326f1e7c5313a525fcac3c2b98");
    expect(sha256(server.publicKey)).to.equal("1529f11710d98140382ceebacd95f6d5c8c6dca70f275663447e2c0c36be03d2");
    expect(u).to.equal(number("250bbec635f367f772c0ecbd993c068f98d08480251209dd0599784a6473d129"));
    expect(serverS).to.equal(clientS);
    expect(sha256(pad(rfc5054Group3072, clientS))).to.equal(
      "468f4bb304eb97c9c5141ba81e44369a929c3aa7d695078cc7ed7761915d0396",
    );
    expect(hexOf(proofs.clientProof)).to.equal("c5bea29ec22dc8bdfd4f7ac1e2c3438beeb58fe767bf31b6d444838efe0a6603");
    expect(hexOf(proofs.serverProof)).to.equal("8481e8dd0e76f3f23c52a96a27e4ae550a98279e326a3e27bf57e3b11d77632b");
  });

  it("keep the leading zeros of public keys and of the secret", async () => {
    const { x, u, verifier, client, server, clientS, serverS, proofs } = await exchange(rfc5054Group3072, leadingZeros);

    const S = pad(rfc5054Group3072, clientS);
    expect([client.publicKey, server.publicKey, S].map((padded) => [padded.length, padded[0]])).to.deep.equal(
      Array.from({ length: 3 }, () => [384, 0]),
    );
    expect(x).to.equal(number("a8918b92a81d952a6d4546150dbfa88b452730220378c293f5f31f03e7a78520"));
    expect(sha256(verifier)).to.equal("43e69504985a69aa27aa35db174da7b7c0e46dd1ddb5d7de634b90e158d5c93e");
    expect(sha256(client.publicKey)).to.equal("18275005638383691dac33999068a21f1ed03b5d8e7ee48f3394007846de2abc");
    expect(sha256(server.publicKey)).to.equal("860657a9a44a165f520bccf054100f9a653bb97b404e484600a9bb1cd14d6266");
    expect(u).to.equal(number("c8dc9d5314b1b4144ded49b58efcb1db85992ee01c63f6286edd88ce054eae3a"));
    expect(sha256(S)).to.equal("ffee13a98cc28daa0a99639bac9a0488b18de605f74f3f028d4904c192033800");
    expect(serverS).to.equal(clientS);
    expect(hexOf(proofs.clientProof)).to.equal("e14f865345d04454687658dfa72291a82a922286bf19f32508d6d3216adc7e2e");
    expect(hexOf(proofs.serverProof)).to.equal("4b5abbe5ef423f42b1d65c88e2cf725bb5484117e876a2e0ca8a90decc6aab11");
  });
});

/** A user with a verifier, and a login that has come to its first message. */
async function enrolled(group: Group, password: string, username = "alice") {
  const salt = randomBytes(16);
  const verifier = await verifierFor(group, salt, username, password);
  const keys = await serverKeys(group, verifier, bigintPower);
  const server = { group, username, salt, verifier, keys };
  return {
    server,
    /** The client's half, with the password that it thinks is right. */
    async prove(typed: string, as = username) {
      const keys = clientKeys(group);
      const serverPublicKey = server.keys.publicKey;
      const proofs = await proveLogin({ group, username: as, password: typed, salt, keys, serverPublicKey });
      return { ...proofs, clientPublicKey: keys.publicKey };
    },
    verify: (clientPublicKey: Uint8Array, clientProof: Uint8Array) =>
      verifyLogin({ ...server, clientPublicKey, clientProof }, bigintPower),
  };
}

/** Of one to five characters from anywhere in Unicode. */
function randomPassword(): string {
  const points = Array.from(
    { length: 1 + (randomBytes(1).readUInt8() % 5) },
    () => randomBytes(4).readUInt32BE() % 0x10ffff,
  );
  return String.fromCodePoint(...points.map((point) => (point >= 0xd800 && point < 0xe000 ? 0x1f511 : point)));
}

describe("An SRP login", () => {
  for (const [group, rounds] of [
    [rfc5054Group1024, 100],
    [rfc5054Group3072, 5],
  ] as const) {
    it(`proves each side to the other, with any password: ${group.name}`, async () => {
      for (let round = 0; round < rounds; round++) {
        const password = randomPassword();
        const login = await enrolled(group, password);

        const { clientPublicKey, clientProof, serverProof } = await login.prove(password);

        const hint = JSON.stringify(password);
        expect(hexOf(await login.verify(clientPublicKey, clientProof)), hint).to.equal(hexOf(serverProof));
      }
    });
  }

  it("takes new keys for each login, as long as the prime", async () => {
    const logins = await Promise.all(Array.from({ length: 20 }, () => enrolled(rfc5054Group1024, "same")));
    const pairs = logins.flatMap(({ server }) => [server.keys, clientKeys(rfc5054Group1024)]);

    expect(new Set(pairs.map(({ privateKey }) => hexOf(privateKey))).size).to.equal(40);
    expect(new Set(pairs.map(({ publicKey }) => hexOf(publicKey))).size).to.equal(40);
    expect(pairs.map(({ privateKey, publicKey }) => [privateKey.length, publicKey.length])).to.deep.equal(
      pairs.map(() => [32, 128]),
    );
  });

  it("refuses another password, even one that only looks the same", async () => {
    const composed = "caf\u00e9";
    const login = await enrolled(rfc5054Group1024, composed);

    for (const typed of ["", "cafe", "Caf\u00e9", "caf\u00e9 ", "cafe\u0301"]) {
      const { clientPublicKey, clientProof } = await login.prove(typed);
      expect(await login.verify(clientPublicKey, clientProof), typed).to.equal(undefined);
    }
  });

  it("refuses the right password under another username, and the username in another case", async () => {
    const login = await enrolled(rfc5054Group1024, "password", "alice");

    for (const as of ["bob", "Alice", ""]) {
      const { clientPublicKey, clientProof } = await login.prove("password", as);
      expect(await login.verify(clientPublicKey, clientProof), as).to.equal(undefined);
    }
  });

  it("refuses a proof that is not whole, was changed, or belongs to other keys", async () => {
    const login = await enrolled(rfc5054Group1024, "password");
    const { clientPublicKey, clientProof, serverProof } = await login.prove("password");
    const other = await login.prove("password");
    const changed = (at: number) => clientProof.map((byte, index) => (index === at ? byte ^ 1 : byte));

    for (const [what, proof] of [
      ["nothing", new Uint8Array()],
      ["all but the last byte", clientProof.subarray(0, -1)],
      ["a byte more", new Uint8Array([...clientProof, 0])],
      ["another first byte", changed(0)],
      ["another last byte", changed(clientProof.length - 1)],
      ["the proof for another key", other.clientProof],
      ["the server's proof", serverProof],
    ] as const) {
      expect(await login.verify(clientPublicKey, proof), what).to.equal(undefined);
    }
  });

  const { prime } = rfc5054Group1024;
  for (const [name, A] of [
    ["0", 0n],
    ["N", prime],
    ["2 N", 2n * prime],
    ["N + 1", prime + 1n],
  ] as const) {
    it(`refuses the client's public key ${name}, with a proof that fits it`, async () => {
      const login = await enrolled(rfc5054Group1024, "password");
      const [b, v] = [toInteger(login.server.keys.privateKey), toInteger(login.server.verifier)];
      const B = login.server.keys.publicKey;
      const S = await serverSecret(rfc5054Group1024, b, v, A, toInteger(B), bigintPower);
      const K = await hash(rfc5054Group1024, pad(rfc5054Group1024, S));

      const answer = await login.verify(
        pad(rfc5054Group1024, A),
        await hash(rfc5054Group1024, pad(rfc5054Group1024, A), B, K),
      );

      expect(answer).to.equal(undefined);
    });
  }

  it("reads a client's public key without its leading zeros", async () => {
    const values = await exchange(rfc5054Group3072, leadingZeros);
    const { username, salt } = leadingZeros;

    const answer = await verifyLogin(
      {
        group: rfc5054Group3072,
        username,
        salt,
        verifier: values.verifier,
        keys: values.server,
        clientPublicKey: values.client.publicKey.subarray(1),
        clientProof: values.proofs.clientProof,
      },
      bigintPower,
    );

    expect(hexOf(answer)).to.equal(hexOf(values.proofs.serverProof));
  });

  it("ends at the client when the server's public key is 0 or not below N", async () => {
    for (const B of [0n, prime, prime + 1n, 2n * prime]) {
      const attempt = proveLogin({
        group: rfc5054Group1024,
        ...appendixB,
        keys: clientKeys(rfc5054Group1024),
        serverPublicKey: toBytes(B),
      });

      expect(await attempt.catch((error: unknown) => error)).to.be.instanceOf(IllegalParameter);
    }
  });
});

describe("The server's answer to the client's proof", () => {
  // All for the login of `leadingZeros`, and computed by another program, in another language.
  for (const [form, clientProof, serverProof] of [
    [
      "as documented",
      "e14f865345d04454687658dfa72291a82a922286bf19f32508d6d3216adc7e2e",
      "4b5abbe5ef423f42b1d65c88e2cf725bb5484117e876a2e0ca8a90decc6aab11",
    ],
    [
      "with H(PAD(g)) for H(g)",
      "0908c8d137d8b988a8c966320246d582063ad52d488b961625cfe8c6f1e27289",
      "18bf9c9b5430667f9a352e046b114c67789218e7682be8b4cc4e5abb555aec68",
    ],
    [
      "as H(A | B | K)",
      "3c1457f7ec41681987fe9fcc06dea9141f26b01bed4e749406eace7d0ce168c4",
      "9dea790b44894defe9bc578ffb9e0935815bdd163b825868a781261ef390a766",
    ],
    [
      "as H(A | B | S)",
      "caf573656dc67bc514c92933857022ae2c26d7c61ec72484b875b4f516aa00a4",
      "adc125cb1dff0d6e4fcc4461f21ee949e29f1db01211ef697ea48983d487bb24",
    ],
    [
      "without padding",
      "3c1061332cf34a3590ab75793cc3e51bb5bc3a918d4c77d77c70fbe168f14788",
      "26adb8de60d0854cdea5a3914cc214bb201773b6d3c50e75fc84a224f94f729e",
    ],
    [
      "with H(PAD(g)) for H(g), else without padding",
      "03609904b46cf2b91cbe773b6a748a946891583a97b2001e46f06a79a8b2c0c4",
      "3beb42f1a9a296ecc7eb84fc430198714ab390b9e15d10d1269d6403f8e96ef8",
    ],
    [
      "as H(A | B | K) without padding",
      "96c1aef683442c9a3a9fab57711cd4eb1b3f1053e871863752602ab9983263df",
      "41dabd2cb780d0fbcdf139c145e0ced2bd9e4f30417819fa31724ec6f3dd05a0",
    ],
    [
      "as H(A | B | S) without padding",
      "6a0255d9b8de1d6006b3be36c6e37276f122f4abcbf2280bc1d27c65f8f0b418",
      "169e24b1c541d10ab3df74c3d436ab745ca8166f5adbe11a20b27d2de79dcd3e",
    ],
  ] as const) {
    it(`is made the same way: ${form}`, async () => {
      const { verifier, client, server } = await exchange(rfc5054Group3072, leadingZeros);
      const { username, salt } = leadingZeros;

      const answer = await verifyLogin(
        {
          group: rfc5054Group3072,
          username,
          salt,
          verifier,
          keys: server,
          clientPublicKey: client.publicKey,
          clientProof: bytes(clientProof),
        },
        bigintPower,
      );

      expect(hexOf(answer)).to.equal(serverProof);
    });
  }
});

describe("Proofs", () => {
  it("are the same when every byte is, and no byte is missing", () => {
    const proof = randomBytes(32);

    expect(isSameProof(proof, Uint8Array.from(proof))).to.equal(true);
    for (let bit = 0; bit < 256; bit++) {
      const other = Uint8Array.from(proof, (byte, at) => (at === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte));
      expect(isSameProof(proof, other), `bit ${bit}`).to.equal(false);
    }
    for (let length = 0; length < 32; length++) {
      expect(isSameProof(proof, proof.subarray(0, length)), `${length} bytes`).to.equal(false);
      expect(isSameProof(proof.subarray(0, length), proof), `of ${length} bytes`).to.equal(false);
    }
  });
});

describe("A verifier", () => {
  it("is a number that a password can have", async () => {
    const { prime } = rfc5054Group3072;
    const { verifier } = await exchange(rfc5054Group3072, appendixB);

    expect(isVerifier(rfc5054Group3072, verifier)).to.equal(true);
    for (const v of [0n, 1n, prime - 1n, prime, prime + 2n, 2n ** 3072n]) {
      expect(isVerifier(rfc5054Group3072, toBytes(v)), String(v)).to.equal(false);
    }
    expect(isVerifier(rfc5054Group3072, new Uint8Array())).to.equal(false);
  });

  it("is of the username exactly as given: lower case is for the caller to make", async () => {
    const { salt, password } = appendixB;

    const lower = await verifierFor(rfc5054Group1024, salt, "alice", password);
    const upper = await verifierFor(rfc5054Group1024, salt, "Alice", password);

    expect(hexOf(upper)).not.to.equal(hexOf(lower));
  });
});
