import { createCipheriv, createSecretKey, randomBytes } from "node:crypto";
import { expect } from "chai";
import { decrypt, encrypt, newKey, SealBroken, unwrapKey } from "../../../src/server/seal/cipher.ts";

const key = createSecretKey(randomBytes(32));
const place = "holdfast/v1|secret.value|organization|record|1";

describe("Sealed bytes", () => {
  for (const [what, plaintext] of [
    ["nothing", Buffer.alloc(0)],
    ["text", Buffer.from("s3cret \u{1f511} \0 end")],
    ["64 KiB", randomBytes(65_536)],
  ] as const) {
    it(`open to what was sealed: ${what}`, () => {
      const sealed = encrypt(key, place, plaintext);

      expect(decrypt(key, place, sealed)).to.deep.equal(plaintext);
      if (plaintext.length > 0) expect(sealed.includes(plaintext)).to.equal(false);
    });
  }

  it("never look the same twice", () => {
    const many = new Set(Array.from({ length: 1000 }, () => encrypt(key, place, Buffer.from("v")).toString("hex")));

    expect(many.size).to.equal(1000);
  });

  it("do not open when any single bit of them is another", () => {
    const sealed = encrypt(key, place, Buffer.from("value"));

    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const damaged = Buffer.from(sealed);
      damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(() => decrypt(key, place, damaged), `bit ${bit}`).to.throw(SealBroken);
    }
  });

  it("do not open when any of them is missing or more are added", () => {
    const sealed = encrypt(key, place, Buffer.from("value"));

    for (let length = 0; length < sealed.length; length++) {
      expect(() => decrypt(key, place, sealed.subarray(0, length)), `${length} bytes`).to.throw(SealBroken);
    }
    expect(() => decrypt(key, place, Buffer.concat([sealed, Buffer.alloc(1)]))).to.throw(SealBroken);
  });

  it("do not open with a tag of 4 bytes, which GCM would allow", () => {
    const iv = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", key, iv, { authTagLength: 4 });
    cipher.setAAD(Buffer.from(place));
    const ciphertext = Buffer.concat([cipher.update("a value that is long enough"), cipher.final()]);
    const sealed = Buffer.concat([Buffer.of(1), iv, ciphertext, cipher.getAuthTag()]);

    expect(() => decrypt(key, place, sealed)).to.throw(SealBroken);
  });

  it("do not open with another key or in another place, and say nothing of what is inside", () => {
    const sealed = encrypt(key, place, Buffer.from("value"));

    for (const attempt of [
      () => decrypt(createSecretKey(randomBytes(32)), place, sealed),
      () => decrypt(key, `${place}0`, sealed),
      () => decrypt(key, "", sealed),
    ]) {
      expect(attempt).to.throw(SealBroken, /^sealed data does not open with this key in this place$/);
    }
  });
});

describe("A wrapped key", () => {
  it("is 32 random bytes that only its wrapping key opens, in its place", () => {
    const { key: made, wrapped } = newKey(key, place);
    const { key: other } = newKey(key, place);

    expect(made.symmetricKeySize).to.equal(32);
    expect(made.equals(other)).to.equal(false);
    expect(unwrapKey(key, place, wrapped).equals(made)).to.equal(true);
    expect(() => unwrapKey(other, place, wrapped)).to.throw(SealBroken);
    expect(() => unwrapKey(key, "elsewhere", wrapped)).to.throw(SealBroken);
  });
});
