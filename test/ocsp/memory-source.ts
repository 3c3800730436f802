import { createHash } from "node:crypto";
import type {
  Authority,
  CertificateState,
  PublishedCrl,
  Question,
  Signer,
  StatusSource,
} from "../../src/ocsp/status-source.ts";
import type { RevocationReason } from "../../src/standards/x509/revocation-reasons.ts";
import type { TestAuthority } from "./authority.ts";

const inADay = () => new Date(Date.now() + 86_400_000);

/** What the responder answers from, in memory. While it is `away`, it rejects what the database would be asked for. */
export class MemorySource implements StatusSource {
  isAway = false;
  readonly crls = new Map<string, PublishedCrl>();
  readonly #authorities = new Map<string, TestAuthority>();
  readonly #certificates = new Map<string, Uint8Array>();
  readonly #signers = new Map<string, Signer>();
  readonly #states = new Map<string, CertificateState>();

  /** With a responder of its own, unless that is said. */
  async add(authority: TestAuthority, signer?: Signer): Promise<void> {
    const { name, keyBits } = authority.names;
    for (const hash of ["sha1", "sha256", "sha384", "sha512"]) {
      const [nameHash, keyHash] = [name, keyBits].map((bytes) => createHash(hash).update(bytes).digest("hex"));
      this.#authorities.set(`${nameHash} ${keyHash}`, authority);
    }
    this.#certificates.set(authority.id, new Uint8Array(authority.certificate.rawData));
    this.#signers.set(authority.id, signer ?? (await authority.newSigner()));
  }

  useSigner({ id }: Authority, signer: Signer | undefined): void {
    if (signer === undefined) this.#signers.delete(id);
    else this.#signers.set(id, signer);
  }

  issue({ id }: Authority, serialNumber: string, notAfter = inADay()): void {
    this.#states.set(`${id} ${serialNumber}`, { notAfter });
  }

  revoke({ id }: Authority, serialNumber: string, reason: RevocationReason = "unspecified", at = new Date()): void {
    const state = this.#states.get(`${id} ${serialNumber}`);
    if (state === undefined) throw new Error("never issued");
    this.#states.set(`${id} ${serialNumber}`, { ...state, revoked: { at, reason } });
  }

  async authority(nameHash: Uint8Array, keyHash: Uint8Array): Promise<Authority | undefined> {
    const [name, key] = [nameHash, keyHash].map((bytes) => Buffer.from(bytes).toString("hex"));
    return this.#authorities.get(`${name} ${key}`);
  }

  async states(questions: readonly Question[]): Promise<(CertificateState | undefined)[]> {
    this.#ask();
    return questions.map(({ authorityId, serialNumber }) => this.#states.get(`${authorityId} ${serialNumber}`));
  }

  async signer(authorityId: string): Promise<Signer | undefined> {
    return this.#signers.get(authorityId);
  }

  async crl(authorityId: string): Promise<PublishedCrl | undefined> {
    this.#ask();
    return this.crls.get(authorityId);
  }

  async certificate(authorityId: string): Promise<Uint8Array | undefined> {
    this.#ask();
    return this.#certificates.get(authorityId);
  }

  async state() {
    const databaseConnected = !this.isAway;
    return { databaseConnected, certificateAuthorities: this.#certificates.size, signingKeys: this.#signers.size };
  }

  #ask(): void {
    if (this.isAway) throw new Error("the database is away");
  }
}
