import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { patient } from "../../../src/server/admin/patient-key.ts";
import { KeyServiceError, type KeyWrapping } from "../../../src/server/seal/key-wrapping.ts";

describe("A key for work that can wait", () => {
  const away = () => new KeyServiceError("away", { away: true, cause: undefined });
  const refusal = new KeyServiceError("refused", { away: false, cause: undefined });
  /** A key that fails so for its first uses. */
  const failing = (...faults: Error[]): KeyWrapping & { uses: number } => {
    const key = {
      setting: "of a test",
      uses: 0,
      async wrap(place: string, bytes: Buffer) {
        key.uses += 1;
        const fault = faults.shift();
        if (fault !== undefined) throw fault;
        return Buffer.concat([Buffer.from(place), bytes]);
      },
      unwrap: (place: string, wrapped: Buffer) => key.wrap(place, wrapped),
    };
    return key;
  };
  const never = new AbortController().signal;

  it("waits for a key service that is away", async () => {
    const key = failing(away(), away());

    const wrapped = await patient(key, never).wrap("place ", Buffer.from("key"));
    const unwrapped = await patient(failing(away()), never).unwrap("place ", Buffer.from("wrapped"));

    expect([wrapped.toString(), unwrapped.toString(), key.uses]).to.deep.equal(["place key", "place wrapped", 3]);
  });

  it("does not wait for one that refuses", async () => {
    const key = failing(refusal);

    const error = await patient(key, never)
      .wrap("place", Buffer.from("key"))
      .catch((reason: unknown) => reason);

    expect(error).to.equal(refusal);
    expect(key.uses).to.equal(1);
  });

  it("stops waiting when it is told to", async () => {
    const stopping = new AbortController();
    const key = failing(...Array.from({ length: 100 }, away));

    const waiting = patient(key, stopping.signal).wrap("place", Buffer.from("key"));
    const ended = waiting.catch((reason: Error) => reason.name);
    await sleep(20);
    stopping.abort();

    expect(await ended).to.equal("AbortError");
  });
});
