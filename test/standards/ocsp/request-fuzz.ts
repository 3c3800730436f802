import { expect } from "chai";
import { MalformedRequest, type OcspRequest, readOcspRequest } from "../../../src/standards/ocsp/request.ts";
import { randomFrom } from "../../harness/random.ts";
import { requestMutations } from "./request-mutations.ts";

export interface FuzzResult {
  readonly refused: number;
  /** Of the slowest input, in milliseconds. */
  readonly slowestMs: number;
}

/** Reads so many damaged requests. Throws for the first that is neither read within its bounds nor refused as malformed. */
export function fuzzRequests(seed: number, count: number): FuzzResult {
  const next = requestMutations(randomFrom(seed));
  let refused = 0;
  let slowestMs = 0;
  for (let done = 0; done < count; done += 1) {
    const bytes = next();
    const started = performance.now();
    try {
      check(readOcspRequest(bytes), bytes);
    } catch (error) {
      if (!(error instanceof MalformedRequest)) {
        const input = `input ${done} of seed ${seed}, ${bytes.toString("base64")}`;
        throw new Error(`${(error as Error).message}: ${input}`, { cause: error });
      }
      refused += 1;
    }
    slowestMs = Math.max(slowestMs, performance.now() - started);
  }
  return { refused, slowestMs };
}

function check({ certIds, nonce }: OcspRequest, bytes: Buffer): void {
  expect(certIds.length).to.be.within(1, 16);
  let from = 0;
  for (const { bytes: certId, nameHash, keyHash, hashAlgorithm, serialNumber } of certIds) {
    // One after the other, each within the request.
    const at = bytes.indexOf(certId, from);
    expect(at).to.be.at.least(from);
    from = at + certId.length;
    expect(certId.includes(nameHash) && certId.includes(keyHash)).to.equal(true);
    if (hashAlgorithm !== undefined) expect(keyHash).to.have.length(nameHash.length);
    if (serialNumber === undefined) continue;
    expect(serialNumber).to.match(/^(0|[1-9a-f][0-9a-f]{0,39})$/);
    expect(certId.toString("hex")).to.include(serialNumber);
  }
  if (nonce !== undefined) {
    expect(nonce.length).to.be.within(1, 128);
    expect(bytes.includes(nonce)).to.equal(true);
  }
}
