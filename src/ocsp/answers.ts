import type { Logger } from "pino";
import { type CertId, MalformedRequest, type OcspRequest, readOcspRequest } from "../standards/ocsp/request.ts";
import {
  encodeResponse,
  encodeResponseData,
  type ResponderParts,
  type ResponseError,
  responderParts,
  type SingleAnswer,
  type Statement,
} from "../standards/ocsp/response.ts";
import { sign, signingAlgorithmOf } from "../standards/x509/signing.ts";
import { AnswerMemory, type SignedAnswer } from "./answer-memory.ts";
import { Outage } from "./outage.ts";
import type { Authority, CertificateState, Signer, StatusSource } from "./status-source.ts";

export type Answer = SignedAnswer | { readonly error: ResponseError };

const minuteMs = 60_000;
/** How long an answer is true at most. */
const lifetimeMs = 60 * minuteMs;
/** An answer is signed anew so long before its end: caches may keep it for that long (G-13.3). */
const renewalMs = 5 * minuteMs;

/** What is known of the certificates of one query. */
interface Facts {
  readonly authority: Authority;
  readonly signer: Signer;
  /** In the order of the query. */
  readonly states: readonly (CertificateState | undefined)[];
  /** From when they were asked for. */
  readonly nowMs: number;
  /** Of two queries the later one has the greater number, whatever the clock says. */
  readonly order: number;
}

/**
 * Answers OCSP queries. The status of each certificate is read for each query, so a revocation shows in the very next
 * answer. Only signatures are saved: an answer that says the same is given again until shortly before its nextUpdate.
 */
export class Answers {
  readonly #source: StatusSource;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #memory = new AnswerMemory();
  /** By what is signed: queries that come meanwhile wait for the same signature. */
  readonly #signing = new Map<string, Promise<SignedAnswer>>();
  readonly #parts = new WeakMap<Signer, ResponderParts>();
  readonly #outage: Outage;
  #asked = 0;

  /** `now` gives milliseconds since 1970. */
  constructor(source: StatusSource, logger: Logger, now = Date.now) {
    this.#source = source;
    this.#logger = logger;
    this.#now = now;
    this.#outage = new Outage(logger);
  }

  /** The answer to a query in DER, whatever that is. Never rejects. */
  async answer(query: Uint8Array): Promise<Answer> {
    try {
      return await this.#answer(readOcspRequest(query));
    } catch (error) {
      if (error instanceof MalformedRequest) return { error: "malformedRequest" };
      this.#logger.error({ err: error }, "an OCSP query could not be answered");
      return { error: "internalError" };
    }
  }

  async #answer(request: OcspRequest): Promise<Answer> {
    const key = request.nonce === undefined ? keyOf(request.certIds) : undefined;
    let facts: Facts | { readonly error: ResponseError };
    try {
      facts = await this.#outage.wait(this.#find(request.certIds), this.#stillTrue(key) !== undefined);
    } catch {
      return this.#stillTrue(key) ?? { error: "tryLater" };
    }
    if ("error" in facts) return facts;
    // What was never issued is signed each time: there is no end of such numbers to remember.
    if (key === undefined || facts.states.includes(undefined)) return this.#sign(request, facts);
    return this.#recall(key, request, facts);
  }

  async #find(certIds: readonly CertId[]): Promise<Facts | { readonly error: ResponseError }> {
    const [nowMs, order] = [this.#now(), ++this.#asked];
    if (certIds.some(({ hashAlgorithm }) => hashAlgorithm === undefined)) return { error: "unauthorized" };
    const [authority, ...others] = await Promise.all(
      certIds.map(({ nameHash, keyHash }) => this.#source.authority(nameHash, keyHash)),
    );
    // A responder's certificate stands for the one authority that issued it (RFC 6960 section 4.2.2.2).
    if (authority === undefined || others.some((other) => other?.id !== authority.id)) return { error: "unauthorized" };
    if (authority.notAfter.getTime() <= nowMs) return { error: "unauthorized" };
    const [signer, states] = await Promise.all([this.#source.signer(authority.id), this.#states(authority, certIds)]);
    if (signer === undefined || signer.notAfter.getTime() <= nowMs) return { error: "tryLater" };
    return { authority, signer, states, nowMs, order };
  }

  /** In one question, without the serial numbers that no certificate can have. */
  async #states(authority: Authority, certIds: readonly CertId[]): Promise<(CertificateState | undefined)[]> {
    const asked = certIds.flatMap(({ serialNumber }) => serialNumber ?? []);
    if (asked.length === 0) return certIds.map(() => undefined);
    const found = await this.#source.states(asked.map((serialNumber) => ({ authorityId: authority.id, serialNumber })));
    this.#outage.end();
    asked.forEach((serialNumber, index) => {
      if (found[index]?.revoked !== undefined) this.#memory.revoked(nameOf(authority, serialNumber));
    });
    let next = 0;
    return certIds.map(({ serialNumber }) => (serialNumber === undefined ? undefined : found[next++]));
  }

  /** An answer that was signed before and says the same, or a new one, which is remembered. */
  #recall(key: string, request: OcspRequest, facts: Facts): Promise<SignedAnswer> | SignedAnswer {
    const { states, signer, nowMs, order } = facts;
    const says = states.map((state) => saying(state, nowMs)).join();
    const known = this.#memory.get(key);
    const isSame = known?.says === says && Buffer.compare(known.keyHash, signer.keyHash) === 0;
    if (isSame && isTrue(known.answer, nowMs, renewalMs)) return known.answer;

    const signingKey = `${says} ${Buffer.from(signer.keyHash).toString("latin1")} ${key}`;
    const underWay = this.#signing.get(signingKey);
    if (underWay !== undefined) return underWay;
    const signing = this.#sign(request, facts)
      .then((answer) => {
        const good = goodOf(request, facts);
        this.#memory.set(key, states.length, { answer, says, good, order, keyHash: signer.keyHash });
        return answer;
      })
      .finally(() => this.#signing.delete(signingKey));
    this.#signing.set(signingKey, signing);
    return signing;
  }

  /** What is remembered, without asking. Whoever sends a nonce, and so has no key, asks for an answer of this moment. */
  #stillTrue(key: string | undefined): SignedAnswer | undefined {
    const answer = key === undefined ? undefined : this.#memory.get(key)?.answer;
    return answer !== undefined && isTrue(answer, this.#now(), 0) ? answer : undefined;
  }

  async #sign({ certIds, nonce }: OcspRequest, { authority, signer, states, nowMs }: Facts): Promise<SignedAnswer> {
    const thisUpdateMs = minuteOf(nowMs);
    const statement: Statement = {
      answers: certIds.map(({ bytes }, index) => singleAnswer(bytes, states[index], authority, nowMs)),
      thisUpdate: new Date(thisUpdateMs),
      // No answer outlives the certificate of whoever signed it.
      nextUpdate: new Date(Math.min(thisUpdateMs + lifetimeMs, signer.notAfter.getTime())),
      nonce,
    };
    const parts = this.#partsOf(signer);
    const responseData = encodeResponseData(parts, statement);
    const der = encodeResponse(parts, responseData, await sign(signer.privateKey, responseData));
    return { ...statement, der, hasNonce: nonce !== undefined };
  }

  #partsOf(signer: Signer): ResponderParts {
    let parts = this.#parts.get(signer);
    if (parts === undefined) {
      const { identifier } = signingAlgorithmOf(signer.privateKey);
      parts = responderParts(signer.keyHash, identifier, signer.certificate);
      this.#parts.set(signer, parts);
    }
    return parts;
  }
}

/** A CertID tells its own length, so no two lists look alike in a row. */
const keyOf = (certIds: readonly CertId[]) => certIds.map(({ bytes }) => bytes.toString("latin1")).join("");

/** A certificate in the memory, by whatever hashes a query named its issuer. */
const nameOf = ({ id }: Authority, serialNumber: string | undefined) => `${id} ${serialNumber}`;

const goodOf = ({ certIds }: OcspRequest, { authority, states }: Facts) =>
  certIds
    .filter((_, index) => states[index]?.revoked === undefined)
    .map(({ serialNumber }) => nameOf(authority, serialNumber));

/** From thisUpdate on, which lies ahead when the clock was set back, until so long before nextUpdate. */
const isTrue = ({ thisUpdate, nextUpdate }: SignedAnswer, nowMs: number, beforeEndMs: number) =>
  thisUpdate.getTime() <= nowMs && nowMs < nextUpdate.getTime() - beforeEndMs;

/** What an answer would say of a certificate: the same text for the same answer. */
function saying(state: CertificateState | undefined, nowMs: number): string {
  if (state === undefined) return "unknown";
  const { revoked } = state;
  const status = revoked === undefined ? "good" : `${toldAs(revoked.at, nowMs).getTime()} ${revoked.reason}`;
  return hasEnded(state, nowMs) ? `${status} ended` : status;
}

function singleAnswer(
  certId: Uint8Array,
  state: CertificateState | undefined,
  authority: Authority,
  nowMs: number,
): SingleAnswer {
  if (state === undefined) return { certId, certificate: { status: "unknown" }, archiveCutoff: undefined };
  const { revoked } = state;
  return {
    certId,
    certificate:
      revoked === undefined
        ? { status: "good" }
        : { status: "revoked", at: toldAs(revoked.at, nowMs), reason: revoked.reason },
    archiveCutoff: hasEnded(state, nowMs) ? authority.notBefore : undefined,
  };
}

const minuteOf = (timeMs: number) => timeMs - (timeMs % minuteMs);

/**
 * When a certificate was revoked, never later than now: the clock of who revoked it may be ahead, and NSS calls good what
 * is revoked only later.
 */
const toldAs = (at: Date, nowMs: number) => (at.getTime() <= nowMs ? at : new Date(minuteOf(nowMs)));

const hasEnded = ({ notAfter }: CertificateState, nowMs: number) => notAfter.getTime() < nowMs;
