import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import { expect } from "chai";
import {
  type KeyKind,
  keySizes,
  kindOf,
  newKeyPair,
  readPublicKey,
  UnsupportedKey,
} from "../../../src/standards/x509/key-pairs.ts";
import { rsaPublicKey } from "./keys.ts";

const infoOf = (key: KeyObject) => key.export({ format: "der", type: "spki" });

const curve = (namedCurve: string, encoding: object = {}) =>
  generateKeyPairSync("ec", { namedCurve, ...encoding }).publicKey;

/** A point of P-256 in another form than the usual one. */
function inForm(form: "compressed" | "hybrid"): Buffer {
  const info = infoOf(curve("P-256"));
  const point = Buffer.from(info.subarray(-65));
  const oddness = (point[64] as number) & 1;
  point[0] = (form === "hybrid" ? 6 : 2) + oddness;
  if (form === "hybrid") return Buffer.concat([info.subarray(0, -65), point]);
  const identifier = info.subarray(2, -68);
  return Buffer.concat([Buffer.of(0x30, 0x39), identifier, Buffer.of(0x03, 0x22, 0), point.subarray(0, 33)]);
}

describe("A key pair", () => {
  const kinds = Object.entries(keySizes).flatMap(([algorithm, sizes]) =>
    sizes.map((size) => ({ algorithm, size }) as KeyKind),
  );
  // Primes for 4096 bits take seconds to find, by the same code.
  for (const kind of kinds.filter(({ size }) => size < 4096)) {
    it(`of ${kind.algorithm} ${kind.size} is made and known as what it is`, async () => {
      const { privateKey, publicKey } = await newKeyPair(kind);

      expect(kindOf(publicKey)).to.deep.equal(kind);
      expect(kindOf(createPublicKey(privateKey))).to.deep.equal(kind);
      expect(readPublicKey(infoOf(publicKey)).kind).to.deep.equal(kind);
    });
  }

  it("is not made in sizes that do not go with the algorithm", async () => {
    for (const kind of [{ algorithm: "RSA", size: 1024 } as const, { algorithm: "ECDSA", size: 512 } as const]) {
      const error: unknown = await newKeyPair(kind).catch((error: unknown) => error);

      expect(error).to.be.instanceOf(RangeError);
    }
  });
});

describe("A public key", () => {
  for (const size of [2048, 2049, 3000, 4096]) {
    it(`of RSA is accepted with ${size} bits`, () => {
      expect(kindOf(rsaPublicKey(size))).to.deep.equal({ algorithm: "RSA", size });
    });
  }

  const exponentOf = (hex: string) => rsaPublicKey(2048, Buffer.from(hex, "hex"));
  const refused: Readonly<Record<string, () => Buffer>> = {
    "of RSA below 2048 bits": () => infoOf(rsaPublicKey(2047)),
    "of RSA above 4096 bits": () => infoOf(rsaPublicKey(4097)),
    "of RSA with exponent 3": () => infoOf(exponentOf("03")),
    "of RSA with exponent 65535": () => infoOf(exponentOf("ffff")),
    "of RSA with an even exponent": () => infoOf(exponentOf("010002")),
    "of RSA with an exponent of 257 bits": () => infoOf(exponentOf(`01${"00".repeat(31)}01`)),
    "that is for RSASSA-PSS only": () => {
      const info = infoOf(rsaPublicKey(2048));
      // The last number of id-RSASSA-PSS in place of that of rsaEncryption.
      info[info.indexOf("2a864886f70d010101", "hex") + 8] = 10;
      return info;
    },
    "on secp256k1": () => infoOf(curve("secp256k1")),
    "on P-224": () => infoOf(curve("P-224")),
    "on brainpoolP256r1": () => infoOf(curve("brainpoolP256r1")),
    "with a curve that is spelled out": () => infoOf(curve("P-256", { paramEncoding: "explicit" })),
    "with a compressed point": () => inForm("compressed"),
    "with a point in the hybrid form": () => inForm("hybrid"),
    "of Ed448": () => infoOf(generateKeyPairSync("ed448").publicKey),
    "of X25519": () => infoOf(generateKeyPairSync("x25519").publicKey),
    "that lies on no curve": () => Buffer.concat([infoOf(curve("P-256")).subarray(0, -64), randomBytes(64)]),
  };
  for (const [what, info] of Object.entries(refused)) {
    it(`${what} is refused`, () => {
      expect(() => readPublicKey(info())).to.throw(UnsupportedKey);
    });
  }

  for (const what of ["of RSA below 2048 bits", "on secp256k1", "with a curve that is spelled out", "of Ed448"]) {
    it(`${what} is refused, too, when it is not read here`, () => {
      const key = createPublicKey({ key: (refused[what] as () => Buffer)(), format: "der", type: "spki" });

      expect(() => kindOf(key)).to.throw(UnsupportedKey);
    });
  }
});
