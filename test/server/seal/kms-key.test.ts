import { createSecretKey, randomBytes } from "node:crypto";
import { expect } from "chai";
import { SealBroken } from "../../../src/server/seal/cipher.ts";
import { KeyServiceError, LocalKey } from "../../../src/server/seal/key-wrapping.ts";
import { KmsKey } from "../../../src/server/seal/kms-key.ts";
import { useKms } from "../../harness/kms.ts";

const setting = "SERVICE_MASTER_KEY_KMS_KEY_ID";
const place = "holdfast/v1|organization-key|o";
const key = randomBytes(32);

describe("A key of AWS KMS", () => {
  const kms = useKms();
  const keyOf = (keyId = kms.createKey()) => new KmsKey({ setting, keyId, endpoint: kms.url });
  const failure = async (attempt: Promise<unknown>) => {
    const error = await attempt.then(
      () => new Error("it succeeded"),
      (reason: unknown) => reason,
    );
    expect(error).to.be.instanceOf(KeyServiceError);
    const { message, away } = error as KeyServiceError;
    expect(message).to.match(/^SERVICE_MASTER_KEY_KMS_KEY_ID: AWS KMS cannot be used \([^\n]+\)$/);
    return { message, away };
  };
  const broken = (attempt: Promise<unknown>) =>
    attempt.then(
      () => false,
      (error: unknown) => error instanceof SealBroken,
    );

  it("wraps a key for a place, which KMS is told, and opens it there again", async () => {
    const keyId = kms.createKey();
    kms.requests.length = 0;

    const wrapped = await keyOf(keyId).wrap(place, key);
    const opened = await keyOf(keyId).unwrap(place, wrapped);

    expect(opened).to.deep.equal(key);
    expect(wrapped.includes(key)).to.equal(false);
    expect(kms.requests.map(({ operation }) => operation)).to.deep.equal(["Encrypt", "Decrypt"]);
    for (const { input } of kms.requests) {
      expect(input).to.deep.include({ KeyId: keyId, EncryptionContext: { place } });
    }
  });

  it("opens nothing in another place, nothing damaged, and nothing of another key of KMS", async () => {
    const [one, other] = [keyOf(), keyOf()];
    const wrapped = await one.wrap(place, key);

    expect(await broken(one.unwrap(`${place}0`, wrapped))).to.equal(true);
    expect(await broken(other.unwrap(place, wrapped))).to.equal(true);
    expect(await broken(one.unwrap(place, wrapped.subarray(0, wrapped.length - 1)))).to.equal(true);
  });

  it("and a local key tell each other's form by its first byte, without asking KMS", async () => {
    const ofKms = keyOf();
    const local = new LocalKey("SERVICE_MASTER_KEY", createSecretKey(randomBytes(32)));
    const [wrappedByKms, wrappedLocally] = [await ofKms.wrap(place, key), await local.wrap(place, key)];
    kms.requests.length = 0;

    expect([wrappedLocally[0], wrappedByKms[0]]).to.deep.equal([1, 2]);
    expect(await broken(ofKms.unwrap(place, wrappedLocally))).to.equal(true);
    expect(await broken(local.unwrap(place, wrappedByKms))).to.equal(true);
    expect(kms.requests).to.deep.equal([]);
  });

  it("is asked again when KMS has too much to do, and is away when that stays so", async () => {
    const ofKms = keyOf();
    kms.fail("ThrottlingException", 1);

    const wrapped = await ofKms.wrap(place, key);
    kms.fail("ThrottlingException");
    const { away, message } = await failure(ofKms.unwrap(place, wrapped));

    expect(wrapped[0]).to.equal(2);
    expect(away).to.equal(true);
    expect(message).to.match(/ThrottlingException|no answer in time/);
  });

  it("is not asked again when KMS refuses, and the reason is told", async () => {
    const ofKms = keyOf();
    for (const name of [
      "AccessDeniedException",
      "NotFoundException",
      "DisabledException",
      "KMSInvalidStateException",
    ]) {
      kms.requests.length = 0;
      kms.fail(name);

      const { away, message } = await failure(ofKms.wrap(place, key));

      expect(message).to.include(`(${name}: ${name} for a test)`);
      expect(away).to.equal(false);
      expect(kms.requests).to.have.length(1);
    }
  });

  it("is away while KMS fails, hangs, or is not there, and comes back with it", async () => {
    const ofKms = keyOf();

    kms.fail("KMSInternalException");
    const failing = await failure(ofKms.wrap(place, key));
    kms.recover();
    kms.hang();
    const hanging = await failure(ofKms.wrap(place, key));
    kms.recover();
    await kms.stop();
    const gone = await failure(ofKms.wrap(place, key));
    await kms.start();
    const wrapped = await ofKms.wrap(place, key);

    expect(failing).to.deep.include({ away: true });
    expect(hanging).to.deep.equal({ away: true, message: `${setting}: AWS KMS cannot be used (no answer in time)` });
    expect(gone).to.deep.equal({ away: true, message: `${setting}: AWS KMS cannot be used (ECONNREFUSED)` });
    expect(await ofKms.unwrap(place, wrapped)).to.deep.equal(key);
  });

  it("says when there are no credentials or no region; the ARN of a key has a region in it", async () => {
    const { AWS_ACCESS_KEY_ID, AWS_REGION } = process.env;
    const arn = kms.createKey();

    delete process.env["AWS_REGION"];
    const ofArn = await keyOf(arn).wrap(place, key);
    const ofAlias = await failure(keyOf("alias/holdfast").wrap(place, key));
    process.env["AWS_REGION"] = AWS_REGION;
    delete process.env["AWS_ACCESS_KEY_ID"];
    const nobody = await failure(keyOf(arn).wrap(place, key));
    process.env["AWS_ACCESS_KEY_ID"] = AWS_ACCESS_KEY_ID;

    expect(ofArn[0]).to.equal(2);
    expect(ofAlias.message).to.match(/region/i);
    expect(nobody.message).to.match(/credentials/i);
    expect([ofAlias.away, nobody.away]).to.deep.equal([false, false]);
  });
});
