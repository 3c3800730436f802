import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * What a link writes into the custom metadata of a secret of Vault about the one field that is its own. It is a claim at
 * first, with a proof of the value that is about to be written, and final once Vault has confirmed that value. Without the
 * proof nobody could say, after a crash between the two, whose a field is that has appeared meanwhile.
 */
export class VaultMark {
  readonly #linkId: string;
  readonly #proofKey: string;

  /** The key is secret, and the same for each attempt to write the same value. */
  constructor(linkId: string, proofKey: string) {
    this.#linkId = linkId;
    this.#proofKey = proofKey;
  }

  /** That the field is this link's. */
  get final(): string {
    return this.#linkId;
  }

  /** That the field is this link's if it has this value. */
  claimOf(value: string): string {
    return `${this.#linkId} ${this.#proofOf(value)}`;
  }

  /** Whether a mark is this link's, claim or final. */
  isOf(mark: string | undefined): boolean {
    return mark === this.final || mark?.startsWith(`${this.#linkId} `) === true;
  }

  /** Whether a mark proves that a field with this value was written by this link. */
  proves(mark: string | undefined, value: unknown): boolean {
    if (mark === this.final) return true;
    if (mark === undefined || typeof value !== "string") return false;
    const [given, expected] = [Buffer.from(mark), Buffer.from(this.claimOf(value))];
    return given.length === expected.length && timingSafeEqual(given, expected);
  }

  #proofOf(value: string): string {
    return createHmac("sha256", this.#proofKey).update(`${this.#linkId} ${value}`).digest("base64url");
  }
}
