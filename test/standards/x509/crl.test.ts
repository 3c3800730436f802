import "reflect-metadata";
import { spawnSync } from "node:child_process";
import { webcrypto } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  AuthorityKeyIdentifierExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509Crl,
} from "@peculiar/x509";
import { expect } from "chai";
import fc from "fast-check";
import {
  enumerated,
  generalizedTime,
  integerFromHex,
  octetString,
  oid,
  sequence,
  utcTime,
} from "../../../src/standards/der.ts";
import type { Issuer } from "../../../src/standards/x509/certificates.ts";
import { issueLeaf, issueRoot } from "../../../src/standards/x509/certificates.ts";
import { type CrlEntry, encodeEntries, pemPieces, signCrl } from "../../../src/standards/x509/crl.ts";
import { type KeyKind, newKeyPair } from "../../../src/standards/x509/key-pairs.ts";
import { toPem } from "../../../src/standards/x509/pem.ts";
import { type RevocationReason, revocationReasons } from "../../../src/standards/x509/revocation-reasons.ts";
import { newSerialNumber } from "../../../src/standards/x509/serial-number.ts";

const kinds: readonly KeyKind[] = [
  { algorithm: "ECDSA", size: 256 },
  { algorithm: "ECDSA", size: 384 },
  { algorithm: "ECDSA", size: 521 },
  { algorithm: "RSA", size: 2048 },
  { algorithm: "Ed25519", size: 256 },
];
const noName = { commonName: "", organization: "", organizationalUnit: "", country: "", state: "", locality: "" };
const thisUpdate = new Date("2026-11-22T03:00:00Z");
const nextUpdate = new Date("2026-11-29T03:00:00Z");
const day = 86_400_000;
const validNow = () => ({ thisUpdate: new Date(Date.now() - 60_000), nextUpdate: new Date(Date.now() + 7 * day) });

const nameOf = ({ algorithm, size }: KeyKind) => `${algorithm} ${size}`;

async function authority(kind: KeyKind): Promise<Issuer> {
  const { privateKey, publicKey } = await newKeyPair(kind);
  const certificate = await issueRoot(
    {
      serialNumber: newSerialNumber(),
      subject: { ...noName, commonName: `Root ${nameOf(kind)}`, organization: "Exämple" },
      publicKey,
      notBefore: new Date(Date.now() - day),
      notAfter: new Date(Date.now() + 3650 * day),
      maxPathLength: undefined,
      nameConstraints: undefined,
    },
    privateKey,
  );
  return { certificate, privateKey };
}

/** The list in DER; its entries arrive in pieces of so many bytes. */
async function listOf(issuer: Issuer, entries: readonly CrlEntry[], draft = {}, pieceLength = 1000): Promise<Buffer> {
  const encoded = encodeEntries(entries);
  async function* read() {
    for (let at = 0; at < encoded.length; at += pieceLength) yield encoded.subarray(at, at + pieceLength);
  }
  const all = { number: 1, thisUpdate, nextUpdate, entries: { length: encoded.length, read }, ...draft };
  const { head, tail } = await signCrl(issuer, all);
  return Buffer.concat([head, encoded, tail]);
}

const reasons = Object.keys(revocationReasons) as RevocationReason[];
const oneOfEachReason: readonly CrlEntry[] = reasons.map((reason, index) => ({
  serialNumber: newSerialNumber(),
  revokedAt: new Date(Date.UTC(2026, 10, index + 1, 12, 30, 15)),
  reason,
}));

const openssl = (input: Uint8Array, ...args: string[]) => spawnSync("openssl", args, { input, encoding: "utf8" });
const missing = (program: string) => spawnSync(program, ["version"]).error !== undefined;

describe("A certificate revocation list", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  const issuers = new Map<string, Issuer>();
  const issuerOf = (kind: KeyKind) => issuers.get(nameOf(kind)) as Issuer;
  const file = (name: string, content: string | Uint8Array) => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  const certificateFile = ({ certificate }: Issuer) => file("ca.pem", toPem("CERTIFICATE", certificate));

  before(async () => {
    for (const kind of kinds) issuers.set(nameOf(kind), await authority(kind));
  });
  after(() => rmSync(folder, { recursive: true }));

  for (const kind of kinds) {
    describe(`signed by a key of ${nameOf(kind)}`, () => {
      it("is verified and read by openssl", function () {
        // openssl is not on every machine.
        if (missing("openssl")) this.skip();
        return checkWithOpenssl(issuerOf(kind));
      });

      it("is verified and read by GnuTLS", async function () {
        // certtool is not on every machine.
        if (missing("certtool")) this.skip();
        const issuer = issuerOf(kind);
        const crl = file("list.pem", toPem("X509 CRL", await listOf(issuer, oneOfEachReason, validNow())));

        const args = ["--verify-crl", "--load-ca-certificate", certificateFile(issuer), "--infile", crl];
        const { status, stdout } = spawnSync("certtool", args, { encoding: "utf8" });

        expect(status, stdout).to.equal(0);
        expect(stdout).to.include("Verification output: Verified.");
        expect(stdout).to.include(`Revoked certificates (${reasons.length})`);
      });

      it("is read as it was written, and verified, by @peculiar/x509", async () => {
        const issuer = issuerOf(kind);

        const crl = new X509Crl(await listOf(issuer, oneOfEachReason));

        const ca = new X509Certificate(new Uint8Array(issuer.certificate));
        const publicKey = await ca.publicKey.export(webcrypto);
        expect(await crl.verify({ publicKey }, webcrypto)).to.equal(true);
        expect(crl.issuer).to.equal(ca.subject);
        expect([crl.thisUpdate, crl.nextUpdate]).to.deep.equal([thisUpdate, nextUpdate]);
        const keyId = crl.getExtension(AuthorityKeyIdentifierExtension)?.keyId;
        expect(keyId).to.equal(ca.getExtension(SubjectKeyIdentifierExtension)?.keyId);
        expect(
          crl.entries.map(({ serialNumber, revocationDate, reason = 0 }) => ({
            serialNumber,
            revokedAt: revocationDate,
            reason: reasons.find((name) => revocationReasons[name] === reason),
          })),
        ).to.deep.equal(oneOfEachReason);
      });
    });
  }

  async function checkWithOpenssl(issuer: Issuer): Promise<void> {
    const crl = await listOf(issuer, oneOfEachReason, { number: 4711 });

    const args = ["crl", "-inform", "DER", "-noout", "-text", "-verify", "-CAfile", certificateFile(issuer)];
    const { stdout, stderr } = openssl(crl, ...args);

    expect(stderr).to.include("verify OK");
    expect(stdout)
      .to.include("Version 2")
      .and.match(/X509v3 CRL Number: \s*4711\s/);
    expect(stdout).to.include("Last Update: Nov 22 03:00:00 2026 GMT").and.include("Next Update: Nov 29 03:00:00 2026");
    for (const { serialNumber } of oneOfEachReason)
      expect(stdout).to.include(`Serial Number: ${serialNumber.toUpperCase()}`);
    expect(stdout.match(/X509v3 CRL Reason Code/g), "none for unspecified").to.have.length(reasons.length - 1);
    for (const reason of ["Key Compromise", "CA Compromise", "Superseded", "Privilege Withdrawn"])
      expect(stdout).to.include(reason);
  }

  const [p256] = kinds as [KeyKind];
  const rsa = { algorithm: "RSA", size: 2048 } as const;

  it("lets openssl verify refuse the certificates on it and no other", async function () {
    // openssl is not on every machine.
    if (missing("openssl")) this.skip();
    const issuer = issuerOf(p256);
    const pointers = { ocsp: "http://o.test", caIssuers: "http://o.test/ca.crt", crl: "http://o.test/ca.crl" };
    const leaf = async (serialNumber: string) => {
      const { publicKey } = await newKeyPair(p256);
      const alternativeNames = { dns: [`${serialNumber.slice(0, 8)}.test`], ip: [], email: [], uri: [] };
      const [notBefore, notAfter] = [new Date(Date.now() - day), new Date(Date.now() + day)];
      const draft = { serialNumber, subject: noName, publicKey, notBefore, notAfter, alternativeNames };
      return toPem("CERTIFICATE", await issueLeaf(issuer, { ...draft, profile: "server" }, pointers));
    };
    const [revoked, good] = [newSerialNumber(), newSerialNumber()];
    const entry = { serialNumber: revoked, revokedAt: new Date(Date.now() - 60_000), reason: "superseded" } as const;
    const crl = await listOf(issuer, [entry], validNow());

    const crlFile = file("list.pem", toPem("X509 CRL", crl));
    const ca = certificateFile(issuer);
    const verify = async (serialNumber: string) =>
      openssl(Buffer.from(await leaf(serialNumber)), "verify", "-crl_check", "-CAfile", ca, "-CRLfile", crlFile);

    expect((await verify(revoked)).stderr).to.include("certificate revoked");
    expect(await verify(good)).to.include({ status: 0 });
  });

  it("has no list of entries when there are none (RFC 5280 section 5.1.2.6)", async () => {
    const crl = await listOf(issuerOf(p256), []);

    expect(new X509Crl(crl).entries).to.deep.equal([]);
    // What follows nextUpdate is [0], the extensions.
    expect(crl.toString("latin1")).to.match(/261129030000Z\xa0/);
  });

  it("has times in UTCTime up to 2049 and in GeneralizedTime from 2050 on, without fractions", async () => {
    const [last, first] = [new Date("2049-12-31T23:59:59.999Z"), new Date("2050-01-01T00:00:00.001Z")];
    const entry = { serialNumber: newSerialNumber(), revokedAt: first, reason: "unspecified" } as const;

    const text = (await listOf(issuerOf(p256), [entry], { thisUpdate: last, nextUpdate: first })).toString("latin1");

    expect(text).to.include("\x17\x0d491231235959Z\x18\x0f20500101000000Z");
    expect(text.split("\x18\x0f20500101000000Z")).to.have.length(3);
  });

  it("has numbers that are large, and serial numbers in their shortest form", async () => {
    const serials = ["00", "7f", "80", "00ff01", "ff".repeat(20)];
    const entries = serials.map(
      (serialNumber) => ({ serialNumber, revokedAt: thisUpdate, reason: "unspecified" }) as const,
    );

    const der = (await listOf(issuerOf(p256), entries, { number: Number.MAX_SAFE_INTEGER })).toString("hex");

    for (const integer of ["020100", "02017f", "02020080", "020300ff01", `021500${"ff".repeat(20)}`])
      expect(der).to.include(`${integer}170d`);
    expect(der, "the number").to.include("0603551d14040902071fffffffffffff");
  });

  it("has entries as they are assembled of values, whatever their serial numbers and times", () => {
    const years = { min: new Date("1950-01-01T00:00:00Z"), max: new Date("2120-01-01T00:00:00Z"), noInvalidDate: true };
    const entry = fc.record({
      serialNumber: fc.stringMatching(/^[0-9a-f]{1,40}$/),
      revokedAt: fc.date(years),
      reason: fc.constantFrom(...reasons),
    });

    fc.assert(
      fc.property(fc.array(entry, { maxLength: 20 }), (entries) => {
        const expected = entries.map(({ serialNumber, revokedAt, reason }) => {
          const code = enumerated(revocationReasons[reason]);
          const reasonCode = sequence(sequence(oid("2.5.29.21"), octetString(code)));
          const isUtcTime = revokedAt.getUTCFullYear() < 2050;
          return sequence(
            integerFromHex(serialNumber),
            isUtcTime ? utcTime(revokedAt) : generalizedTime(revokedAt),
            ...(reason === "unspecified" ? [] : [reasonCode]),
          );
        });
        expect(encodeEntries(entries).equals(Buffer.concat(expected))).to.equal(true);
      }),
      { numRuns: 300 },
    );
  });

  it("has no serial number of more than 20 octets (RFC 5280 section 4.1.2.2)", () => {
    const entry = { serialNumber: `1${"00".repeat(21)}`, revokedAt: thisUpdate, reason: "unspecified" } as const;

    expect(() => encodeEntries([entry])).to.throw(RangeError, "20 octets");
  });

  it("is the same in whatever pieces its entries come, and reads them once, one at a time", async () => {
    const issuer = issuerOf(rsa);
    const entries = Array.from({ length: 200 }, () => ({ ...(oneOfEachReason[1] as CrlEntry) }));
    const expected = await listOf(issuer, entries);

    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 12_000 }), async (pieceLength) => {
        expect((await listOf(issuer, entries, {}, pieceLength)).equals(expected)).to.equal(true);
      }),
      { numRuns: 20 },
    );

    const encoded = encodeEntries(entries);
    let [begun, held, mostHeld] = [0, 0, 0];
    async function* read() {
      begun += 1;
      for (let at = 0; at < encoded.length; at += 100) {
        held += 1;
        mostHeld = Math.max(mostHeld, held);
        yield encoded.subarray(at, at + 100);
        held -= 1;
      }
    }
    await signCrl(issuer, { number: 1, thisUpdate, nextUpdate, entries: { length: encoded.length, read } });
    expect({ begun, mostHeld }).to.deep.equal({ begun: 1, mostHeld: 1 });
  });

  it("is in PEM what openssl makes of it, in whatever pieces it comes", async function () {
    // openssl is not on every machine.
    if (missing("openssl")) this.skip();
    const crl = await listOf(issuerOf(p256), oneOfEachReason);
    const expected = openssl(crl, "crl", "-inform", "DER", "-outform", "PEM").stdout;

    const pemOf = async (bytes: Buffer, pieceLength: number) => {
      async function* pieces() {
        for (let at = 0; at < bytes.length; at += pieceLength) yield bytes.subarray(at, at + pieceLength);
      }
      let pem = "";
      for await (const piece of pemPieces(pieces())) pem += piece;
      return pem;
    };

    for (const pieceLength of [1, 47, 48, 49, 100, 10_000]) expect(await pemOf(crl, pieceLength)).to.equal(expected);
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1, maxLength: 300 }),
        fc.integer({ min: 1, max: 100 }),
        async (der, length) => {
          expect(await pemOf(Buffer.from(der), length)).to.equal(toPem("X509 CRL", der));
        },
      ),
      { numRuns: 200 },
    );
  });
});
