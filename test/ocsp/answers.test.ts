import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { pino } from "pino";
import { type Answer, Answers } from "../../src/ocsp/answers.ts";
import { newSerialNumber } from "../../src/standards/x509/serial-number.ts";
import { certId, type Hash, nonceExtension, ocspRequest } from "../standards/ocsp/requests.ts";
import { type ReadResponse, readResponse } from "../standards/ocsp/responses.ts";
import { TestAuthority } from "./authority.ts";
import { MemorySource } from "./memory-source.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

describe("The answer to an OCSP query", () => {
  let authority: TestAuthority;
  let source: MemorySource;
  let answers: Answers;
  let log: string[];
  /** Half a minute past a full one. */
  const start = Math.floor(Date.now() / minuteMs) * minuteMs + minuteMs / 2;
  let now: number;

  before(async () => {
    authority = await TestAuthority.create();
  });

  beforeEach(async () => {
    source = new MemorySource();
    await source.add(authority);
    log = [];
    now = start;
    answers = new Answers(source, pino({ level: "info" }, { write: (line: string) => void log.push(line) }), () => now);
  });

  const idOf = (serial: string, of = authority, hash: Hash = "sha256") =>
    certId({ hash, issuer: of.names, serial: Buffer.from(serial, "hex") });

  interface Query {
    readonly of?: TestAuthority;
    readonly hash?: Hash;
    readonly nonce?: Buffer;
  }

  function about(serials: readonly string[], { of, hash, nonce }: Query = {}): Buffer {
    const certIds = serials.map((serial) => idOf(serial, of, hash));
    return ocspRequest({ certIds, ...(nonce === undefined ? {} : { extensions: [nonceExtension(nonce)] }) });
  }

  function issue(notAfter?: Date): string {
    const serial = newSerialNumber();
    source.issue(authority, serial, notAfter);
    return serial;
  }

  async function signed(query: Uint8Array): Promise<ReadResponse & { readonly der: Uint8Array }> {
    const answer = await answers.answer(query);
    if ("error" in answer) throw new Error(answer.error);
    const response = readResponse(answer.der);
    expect(response.isSigned).to.equal(true);
    return { ...response, der: answer.der };
  }

  const statusOf = async (serial: string, query?: Query) => (await signed(about([serial], query))).answers[0]?.status;
  const errorOf = (answer: Answer) => ("error" in answer ? answer.error : "none");

  describe("says of a certificate", () => {
    it("that it is good, whatever hash names its issuer", async () => {
      const serial = issue();

      for (const hash of ["sha1", "sha256", "sha384", "sha512"] as const) {
        expect(await statusOf(serial, { hash })).to.equal("good");
      }
    });

    it("that it was revoked, when and why", async () => {
      const [why, when] = [issue(), new Date("2026-11-20T01:02:03.999Z")];
      source.revoke(authority, why, "key_compromise", when);

      expect(await statusOf(why)).to.equal("revoked 2026-11-20T01:02:03.000Z 1");
    });

    it("that it was revoked, without a reason when none was given", async () => {
      const serial = issue();
      source.revoke(authority, serial, "unspecified", new Date("2026-11-20T01:02:03Z"));

      expect(await statusOf(serial)).to.equal("revoked 2026-11-20T01:02:03.000Z undefined");
    });

    it("that it was revoked, and not that it will be: some clients take that for good", async () => {
      const serial = issue();
      source.revoke(authority, serial, "key_compromise", new Date(start + hourMs));
      const minute = new Date(start - minuteMs / 2).toISOString();

      expect(await statusOf(serial)).to.equal(`revoked ${minute} 1`);
      expect(await statusOf(serial, { nonce: randomBytes(16) })).to.equal(`revoked ${minute} 1`);
      now = start + hourMs + 1;
      expect(await statusOf(serial)).to.equal(`revoked ${new Date(start + hourMs).toISOString()} 1`);
    });

    it("that it is unknown, when no such certificate was issued", async () => {
      expect(await statusOf(newSerialNumber())).to.equal("unknown");
    });

    it("that it is unknown, when there can be no such certificate: its number is negative or too long", async () => {
      const serial = issue();

      const { answers } = await signed(about(["ff", serial, "01".repeat(21), "7f".repeat(3000)]));

      expect(answers.map(({ status }) => status)).to.deep.equal(["unknown", "good", "unknown", "unknown"]);
    });

    it("what it said while the certificate was valid, with the time from which statuses are kept", async () => {
      const [good, revoked] = [issue(new Date(now - 1)), issue(new Date(now - 1))];
      source.revoke(authority, revoked, "superseded", new Date("2026-11-20T01:02:03Z"));
      const cutoff = authority.notBefore.toISOString().replace(/[-T:]/g, "").replace(/\..*/, "Z");
      const expected = `1.3.6.1.5.5.7.48.1.6 180f${Buffer.from(cutoff).toString("hex")}`;

      const { answers } = await signed(about([good, revoked, issue()]));

      expect(answers.map(({ status }) => status)).to.deep.equal(["good", "revoked 2026-11-20T01:02:03.000Z 4", "good"]);
      expect(answers.map(({ archiveCutoff }) => archiveCutoff)).to.deep.equal([expected, expected, undefined]);
    });

    it("in the order of the query, with the octets by which the query named it", async () => {
      const [first, second] = [issue(), issue()];
      source.revoke(authority, second, "ca_compromise", new Date("2026-11-20T01:02:03Z"));

      const response = await signed(about([second, "01", first, second]));

      expect(response.answers.map(({ serialNumber }) => serialNumber)).to.deep.equal([second, "01", first, second]);
      expect(response.answers.map(({ status }) => status.split(" ")[0])).to.deep.equal([
        "revoked",
        "unknown",
        "good",
        "revoked",
      ]);
      for (const serial of [first, second]) expect(Buffer.from(response.der).includes(idOf(serial))).to.equal(true);
    });
  });

  describe("is an error", () => {
    it("when the issuer is none of ours, or is named by one hash only that is ours", async () => {
      const stranger = await TestAuthority.create();
      const halfs = { of: { names: { name: authority.names.name, keyBits: stranger.names.keyBits } } as TestAuthority };

      expect(errorOf(await answers.answer(about(["01"], { of: stranger })))).to.equal("unauthorized");
      expect(errorOf(await answers.answer(about([issue()], halfs)))).to.equal("unauthorized");
    });

    it("when the issuer is named by a hash that none is known by", async () => {
      expect(errorOf(await answers.answer(about([issue()], { hash: "md5" })))).to.equal("unauthorized");
    });

    it("when one of several issuers is none of ours, or they are several: no responder speaks for all of them", async () => {
      const [stranger, other] = [await TestAuthority.create(), await TestAuthority.create("Ed25519")];
      await source.add(other);
      const mine = idOf(issue());

      for (const second of [idOf("01", stranger), idOf("01", other)]) {
        const answer = await answers.answer(ocspRequest({ certIds: [mine, second] }));

        expect(errorOf(answer)).to.equal("unauthorized");
      }
    });

    it("when the authority has ended, and with it whoever spoke for it", async () => {
      const query = about([issue()]);
      now = authority.notAfter.getTime();

      expect(errorOf(await answers.answer(query))).to.equal("unauthorized");
    });

    it("when the query is no query", async () => {
      expect(errorOf(await answers.answer(Buffer.from("hello")))).to.equal("malformedRequest");
    });

    it("when nobody can sign, or the certificate of whoever could has ended", async () => {
      const serial = issue();
      const [signer, query] = [await source.signer(authority.id), about([serial])];
      source.useSigner(authority, undefined);

      expect(errorOf(await answers.answer(query))).to.equal("tryLater");
      source.useSigner(authority, signer);
      now = (signer?.notAfter.getTime() ?? 0) + 1;
      expect(errorOf(await answers.answer(query))).to.equal("tryLater");
    });

    it("when something unexpected happens, of which the log says nothing of the query", async () => {
      const [serial, signer] = [issue(), await authority.newSigner()];
      source.useSigner(authority, { ...signer, privateKey: "broken" as never });

      expect(errorOf(await answers.answer(about([serial])))).to.equal("internalError");
      expect(log).to.have.length(1);
      expect(log.join()).not.to.include(serial);
      source.useSigner(authority, signer);
      expect(await statusOf(serial)).to.equal("good");
    });
  });

  describe("is signed", () => {
    it("by the responder of the authority, which it names by its key", async () => {
      const signer = await source.signer(authority.id);

      const { keyHash } = await signed(about([issue()]));

      expect(keyHash).to.equal(Buffer.from(signer?.keyHash ?? []).toString("hex"));
    });

    it("for an hour from the full minute", async () => {
      const { producedAt, answers } = await signed(about([issue()]));

      const minute = new Date(start - minuteMs / 2);
      expect(producedAt).to.deep.equal(minute);
      expect(answers[0]?.thisUpdate).to.deep.equal(minute);
      expect(answers[0]?.nextUpdate).to.deep.equal(new Date(minute.getTime() + hourMs));
    });

    it("for no longer than the responder's certificate is valid", async () => {
      const signer = await authority.newSigner(0.02);
      source.useSigner(authority, signer);

      const { answers } = await signed(about([issue()]));

      expect(answers[0]?.nextUpdate).to.deep.equal(signer.notAfter);
    });

    it("with the nonce of the query, of any length that is allowed", async () => {
      const serial = issue();

      for (const length of [1, 16, 32, 127, 128]) {
        const nonce = randomBytes(length);
        const header = length < 128 ? [4, length] : [4, 0x81, length];

        const { nonce: repeated } = await signed(about([serial], { nonce }));

        expect(repeated).to.equal(Buffer.concat([Buffer.from(header), nonce]).toString("hex"));
      }
    });
  });

  describe("is remembered", () => {
    const derOf = async (query: Buffer) => Buffer.from((await signed(query)).der).toString("hex");

    it("until five minutes before its end", async () => {
      const query = about([issue()]);
      const first = await derOf(query);

      now = start + 54 * minuteMs;
      expect(await derOf(query)).to.equal(first);
      now = start + 55 * minuteMs;
      expect(await derOf(query)).not.to.equal(first);
    });

    it("for nobody who sends a nonce, be it one that was there before", async () => {
      const [serial, nonce] = [issue(), randomBytes(32)];
      await signed(about([serial]));

      const [once, again] = [await derOf(about([serial], { nonce })), await derOf(about([serial], { nonce }))];

      // ECDSA signs the same octets in another way each time.
      expect(once).not.to.equal(again);
    });

    it("not where it says that a certificate is unknown, so that one issued now is good at once", async () => {
      const serial = newSerialNumber();
      const query = about([serial]);

      expect(await derOf(query)).not.to.equal(await derOf(query));
      source.issue(authority, serial);
      expect(await statusOf(serial)).to.equal("good");
    });

    it("not beyond a revocation, which the very next answer tells", async () => {
      const [serial, other] = [issue(), issue()];
      const several = about([other, serial]);
      await Promise.all([statusOf(serial), signed(several)]);

      source.revoke(authority, serial, "key_compromise", new Date("2026-11-20T01:02:03Z"));

      const revoked = "revoked 2026-11-20T01:02:03.000Z 1";
      expect(await statusOf(serial)).to.equal(revoked);
      expect((await signed(several)).answers.map(({ status }) => status)).to.deep.equal(["good", revoked]);
    });

    it("not beyond another reason", async () => {
      const [serial, at] = [issue(), new Date("2026-11-20T01:02:03Z")];
      source.revoke(authority, serial, "superseded", at);
      await statusOf(serial);

      source.revoke(authority, serial, "key_compromise", at);

      expect(await statusOf(serial)).to.equal("revoked 2026-11-20T01:02:03.000Z 1");
    });

    it("not beyond the end of the certificate, from which on it says how long statuses are kept", async () => {
      const serial = issue(new Date(start + minuteMs));
      expect((await signed(about([serial]))).answers[0]?.archiveCutoff).to.equal(undefined);

      now = start + 2 * minuteMs;

      expect((await signed(about([serial]))).answers[0]?.archiveCutoff).not.to.equal(undefined);
    });

    it("not beyond a clock that is set back, before which it would not be true yet", async () => {
      const query = about([issue()]);
      await signed(query);

      now = start - 2 * hourMs;

      const { answers } = await signed(query);
      expect(answers[0]?.thisUpdate.getTime()).to.be.at.most(now);
      source.isAway = true;
      expect((await signed(query)).answers).to.deep.equal(answers);
    });

    it("not when another responder signs now", async () => {
      const [serial, next] = [issue(), await authority.newSigner()];
      await statusOf(serial);

      source.useSigner(authority, next);

      expect((await signed(about([serial]))).keyHash).to.equal(Buffer.from(next.keyHash).toString("hex"));
    });

    it("already while it is signed: whoever asks the same meanwhile waits for the same signature", async () => {
      const query = about([issue()]);

      const all = await Promise.all(Array.from({ length: 20 }, () => derOf(query)));

      expect(new Set(all).size).to.equal(1);
    });
  });

  describe("while the database is away", () => {
    it("is one from memory, as long as that is true", async () => {
      const [known, revoked, unknown] = [issue(), issue(), issue()];
      source.revoke(authority, revoked);
      const before = [await signed(about([known])), await signed(about([revoked]))];

      source.isAway = true;

      now = start + 59 * minuteMs;
      const during = [await signed(about([known])), await signed(about([revoked]))];
      expect(during.map(({ der }) => der)).to.deep.equal(before.map(({ der }) => der));
      expect(errorOf(await answers.answer(about([unknown])))).to.equal("tryLater");
      expect(errorOf(await answers.answer(about([known], { nonce: randomBytes(16) })))).to.equal("tryLater");
      now = start + hourMs;
      expect(errorOf(await answers.answer(about([known])))).to.equal("tryLater");
    });

    it("is the last that was known, also of one that was revoked shortly before", async () => {
      const serial = issue();
      await statusOf(serial);
      source.revoke(authority, serial);
      await statusOf(serial);

      source.isAway = true;

      expect(await statusOf(serial)).to.match(/^revoked/);
    });

    it("is the one that was asked for last, whichever was signed last", async () => {
      const serial = issue();
      const states = source.states.bind(source);
      const [asked, slow] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      source.states = async (questions) => {
        const found = await states(questions);
        asked.resolve();
        await slow.promise;
        return found;
      };
      const early = statusOf(serial);
      await asked.promise;
      source.states = states;
      source.revoke(authority, serial);
      now += 1;
      await statusOf(serial);
      slow.resolve();
      expect(await early).to.equal("good");

      source.isAway = true;

      expect(await statusOf(serial)).to.match(/^revoked/);
    });

    it("is never good of a certificate that was told to be revoked, however either query named it", async () => {
      const serial = issue();
      const nonce = randomBytes(16);
      const asked = [about([serial]), about([serial], { hash: "sha1" }), about([issue(), serial])];
      for (const query of asked) await signed(query);
      source.revoke(authority, serial);
      expect(await statusOf(serial, { hash: "sha384", nonce })).to.match(/^revoked/);

      source.isAway = true;

      for (const query of asked) expect(errorOf(await answers.answer(query))).to.equal("tryLater");
    });

    it("comes with one line in the log, and one when it is back, however often that is", async () => {
      const query = about([issue()]);
      for (let count = 0; count < 5; count += 1) {
        source.isAway = true;
        for (const each of [query, about(["01"], { hash: "md5" }), about(["ff"]), query]) await answers.answer(each);
        source.isAway = false;
        for (let times = 0; times < 5; times += 1) await signed(query);
      }

      expect(log.map((line) => JSON.parse(line).level)).to.deep.equal([50, 30]);
    });
  });

  describe("while the database hangs", () => {
    /** From now on no question is answered, until what this returns is called. */
    function hang(): () => void {
      const states = source.states.bind(source);
      const { promise, resolve } = Promise.withResolvers<void>();
      source.states = (questions) => promise.then(() => states(questions));
      return () => {
        source.states = states;
        resolve();
      };
    }
    const timed = async (query: Buffer) => {
      const begun = performance.now();
      const answer = await answers.answer(query);
      return { answer, ms: performance.now() - begun };
    };

    it("is one from memory or tryLater within two seconds, and one from memory at once when that is known", async () => {
      const [known, other] = [about([issue()]), about([issue()])];
      const first = await signed(known);
      await signed(other);

      hang();
      const begun = timed(known);
      await sleep(1000);
      const meanwhile = timed(other);
      const [atFirst, late, unknown] = await Promise.all([begun, meanwhile, timed(about([issue()]))]);
      const afterwards = await timed(known);

      expect(atFirst.answer).to.deep.include({ der: first.der });
      expect(errorOf(unknown.answer)).to.equal("tryLater");
      expect(atFirst.ms).to.be.within(1900, 3000);
      // 100 ms after the first one was given up.
      expect(late.ms).to.be.within(1000, 1900);
      expect(unknown.ms).to.be.within(1900, 3000);
      expect(afterwards.answer).to.deep.include({ der: first.der });
      expect(afterwards.ms).to.be.within(90, 500);
    });

    it("is the truth as soon as it answers again, which it is asked for each time", async () => {
      const serial = issue();
      await statusOf(serial);
      const end = hang();
      await statusOf(serial);
      source.revoke(authority, serial);

      end();

      expect(await statusOf(serial)).to.match(/^revoked/);
    });

    it("is waited for again when nobody asked for a while, since it may be back", async () => {
      const serial = issue();
      await statusOf(serial);
      const states = source.states.bind(source);
      hang();
      await statusOf(serial);
      source.revoke(authority, serial);
      source.states = (questions) => sleep(500).then(() => states(questions));

      const real = performance.now.bind(performance);
      performance.now = () => real() + 10_000;
      try {
        expect(await statusOf(serial)).to.match(/^revoked/);
      } finally {
        performance.now = real;
      }
    });

    it("is no answer from memory when it was this process that stood still", async () => {
      const serial = issue();
      await statusOf(serial);
      source.revoke(authority, serial);
      const states = source.states.bind(source);
      source.states = async (questions) => {
        // As an answer that lies in the socket when the process goes on.
        await sleep(2400);
        return states(questions);
      };

      const asked = statusOf(serial);
      await sleep(10);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2600);

      expect(await asked).to.match(/^revoked/);
    });
  });
});
