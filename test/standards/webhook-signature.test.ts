import { expect } from "chai";
import { signWebhook } from "../../src/standards/webhook-signature.ts";

describe("The signature of a webhook", () => {
  it("is the HMAC-SHA256 of the time and the body, as openssl computes it", () => {
    // printf '1795166102.{"a":1}' | openssl dgst -sha256 -hmac key
    const expected = "13361d9b26099ec1ad5ea6183380f07d1574a5fcb40d3619f1273f96c96263cb";

    const signature = signWebhook("key", '{"a":1}', new Date(1_795_166_102_987));

    expect(signature).to.equal(`t=1795166102,v1=${expected}`);
  });

  it("differs with the secret, the time and the body", () => {
    const at = new Date(1_795_166_102_000);

    const signatures = [
      signWebhook("key", "body", at),
      signWebhook("other", "body", at),
      signWebhook("key", "other", at),
      signWebhook("key", "body", new Date(at.getTime() + 1000)),
    ].map((signature) => signature.split("v1=")[1]);

    expect(new Set(signatures).size).to.equal(4);
  });
});
