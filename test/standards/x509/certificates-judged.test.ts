import "reflect-metadata";
import { X509Certificate as NodeCertificate, webcrypto } from "node:crypto";
import { X509Certificate } from "@peculiar/x509";
import { expect } from "chai";
import { type KeyKind, kindOf, newKeyPair } from "../../../src/standards/x509/key-pairs.ts";
import { isMissing } from "../../harness/installed.ts";
import { type Authority, newIntermediate, newLeaf, newRoot, noName, noNames } from "./issuing.ts";
import { type Chain, Judges } from "./judges.ts";
import { rsaPublicKey } from "./keys.ts";

const issuerKinds: readonly KeyKind[] = [
  { algorithm: "RSA", size: 2048 },
  { algorithm: "RSA", size: 3072 },
  { algorithm: "ECDSA", size: 256 },
  { algorithm: "ECDSA", size: 384 },
  { algorithm: "ECDSA", size: 521 },
  { algorithm: "Ed25519", size: 256 },
];
const nameOf = ({ algorithm, size }: KeyKind) => `${algorithm} ${size}`;

describe("Certificates are found valid", () => {
  const judges = new Judges();
  const roots = new Map<string, Authority>();
  const leaves = new Map<string, Uint8Array[]>();
  const rootOf = (kind: KeyKind) => roots.get(nameOf(kind)) as Authority;
  const chainsOf = (kind: KeyKind): Chain[] =>
    (leaves.get(nameOf(kind)) ?? []).map((leaf) => ({ root: rootOf(kind).certificate, intermediates: [], leaf }));

  before(async () => {
    const pairs = await Promise.all(issuerKinds.slice(1).map(newKeyPair));
    const subjects = [rsaPublicKey(2048), rsaPublicKey(4096), ...pairs.map(({ publicKey }) => publicKey)];
    for (const kind of issuerKinds) {
      const root = await newRoot({}, kind);
      roots.set(nameOf(kind), root);
      leaves.set(nameOf(kind), await Promise.all(subjects.map((publicKey) => newLeaf(root, { publicKey }))));
    }
  });
  after(() => judges[Symbol.dispose]());

  for (const kind of issuerKinds) {
    describe(`under a root of ${nameOf(kind)}, for keys of all kinds,`, () => {
      it("by openssl, to the letter", function () {
        if (isMissing("openssl")) this.skip();
        for (const chain of chainsOf(kind)) expect(judges.openssl(chain)).to.deep.include({ isValid: true });
      });

      it("by GnuTLS", function () {
        if (isMissing("certtool")) this.skip();
        for (const chain of chainsOf(kind)) expect(judges.gnutls(chain)).to.deep.include({ isValid: true });
      });

      it("by Node and by @peculiar/x509", async () => {
        const issuer = new NodeCertificate(rootOf(kind).certificate);
        const publicKey = await new X509Certificate(issuer.raw).publicKey.export(webcrypto);
        for (const { leaf } of chainsOf(kind)) {
          const certificate = new NodeCertificate(leaf);
          expect(certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)).to.equal(true);
          expect(certificate.checkHost("www.example.com")).to.equal("www.example.com");
          expect(kindOf(certificate.publicKey)).to.have.property("algorithm");
          expect(await new X509Certificate(new Uint8Array(leaf)).verify({ publicKey }, webcrypto)).to.equal(true);
        }
      });
    });
  }
});

interface Case {
  readonly what: string;
  readonly isValid: boolean;
  /** What openssl says of it. */
  readonly says?: RegExp;
  /** GnuTLS knows nothing of the hosts of URIs. */
  readonly isUri?: boolean;
  readonly chain: () => Promise<Chain>;
}

/** A leaf below one intermediate below a root with constraints. */
async function constrained(ranges: object, leaf: object, isExcluded = false): Promise<Chain> {
  const [listed, other] = [{ ...noNames, ...ranges }, noNames];
  const nameConstraints = isExcluded ? { permitted: other, excluded: listed } : { permitted: listed, excluded: other };
  const root = await newRoot({ nameConstraints });
  const intermediate = await newIntermediate(root, { maxPathLength: 0 });
  const alternativeNames = { ...noNames, ...leaf };
  const names = { alternativeNames, subject: { ...noName, organization: "Example" } };
  return {
    root: root.certificate,
    intermediates: [intermediate.certificate],
    leaf: await newLeaf(intermediate, names),
  };
}

/** A leaf below two intermediates, of which the upper one allows so many below it. */
async function twoBelow(maxPathLength: number | undefined): Promise<Chain> {
  const root = await newRoot({ maxPathLength });
  const upper = await newIntermediate(root, { subject: { ...noName, commonName: "Upper" } });
  const lower = await newIntermediate(upper, { subject: { ...noName, commonName: "Lower" }, maxPathLength: 0 });
  const intermediates = [lower.certificate, upper.certificate];
  return { root: root.certificate, intermediates, leaf: await newLeaf(lower) };
}

/** Each with what is within and what is not. */
const constraintCases = [
  { kind: "dns", range: "example.com", within: "a.example.com", outside: "example.org" },
  { kind: "ip", range: "10.0.0.0/8", within: "10.1.2.3", outside: "11.1.2.3" },
  { kind: "ip", range: "2001:db8::/33", within: "2001:db8:1::1", outside: "2001:db8:8000::" },
  { kind: "email", range: "example.com", within: "a@example.com", outside: "a@www.example.com" },
  { kind: "email", range: ".example.com", within: "a@www.example.com", outside: "a@example.com" },
  { kind: "uri", range: "example.com", within: "https://example.com/", outside: "https://example.org/" },
  { kind: "uri", range: ".example.com", within: "https://a.example.com/", outside: "https://example.com/" },
].flatMap(({ kind, range, within, outside }): Case[] => {
  const [inside, beyond] = [{ [kind]: [within] }, { [kind]: [outside] }];
  const ranges = { [kind]: [range] };
  const isUri = kind === "uri";
  const four: Case[] = [
    { what: `${within} below ${range}`, isValid: true, chain: () => constrained(ranges, inside) },
    { what: `${outside} below ${range}`, isValid: false, says: /permitted/, chain: () => constrained(ranges, beyond) },
    { what: `${outside} without ${range}`, isValid: true, chain: () => constrained(ranges, beyond, true) },
    {
      what: `${within} without ${range}`,
      isValid: false,
      says: /excluded/,
      chain: () => constrained(ranges, inside, true),
    },
  ];
  return four.map((each) => ({ ...each, isUri }));
});

const cases: readonly Case[] = [
  ...constraintCases,
  { what: "two authorities below a root that allows any number", isValid: true, chain: () => twoBelow(undefined) },
  { what: "two authorities below a root that allows two", isValid: true, chain: () => twoBelow(2) },
  {
    what: "two authorities below a root that allows one",
    isValid: false,
    says: /path length/,
    chain: () => twoBelow(1),
  },
  {
    what: "a leaf below a leaf",
    isValid: false,
    says: /invalid CA certificate/,
    chain: async () => {
      const root = await newRoot();
      const keys = await newKeyPair({ algorithm: "ECDSA", size: 256 });
      const between = await newLeaf(root, { publicKey: keys.publicKey });
      const leaf = await newLeaf({ certificate: between, privateKey: keys.privateKey });
      return { root: root.certificate, intermediates: [between], leaf };
    },
  },
];

describe("A chain", () => {
  const judges = new Judges();
  after(() => judges[Symbol.dispose]());

  for (const { what, isValid, says, isUri = false, chain } of cases) {
    it(`is ${isValid ? "valid" : "refused"} by openssl: ${what}`, async function () {
      if (isMissing("openssl")) this.skip();

      const verdict = judges.openssl(await chain());

      expect(verdict.isValid, verdict.output).to.equal(isValid);
      if (says !== undefined) expect(verdict.output).to.match(says);
    });

    if (isUri) continue;
    it(`is ${isValid ? "valid" : "refused"} by GnuTLS: ${what}`, async function () {
      if (isMissing("certtool")) this.skip();

      const verdict = judges.gnutls(await chain());

      expect(verdict.isValid, verdict.output).to.equal(isValid);
    });
  }

  it("is valid for the purposes of its profile only", async function () {
    if (isMissing("openssl")) this.skip();
    const root = await newRoot();
    for (const profile of ["server", "client", "server_client"] as const) {
      const chain = { root: root.certificate, intermediates: [], leaf: await newLeaf(root, { profile }) };

      expect(judges.openssl(chain, "sslserver").isValid).to.equal(profile !== "client");
      expect(judges.openssl(chain, "sslclient").isValid).to.equal(profile !== "server");
    }
  });

  it("is printed by openssl with all that it says", async function () {
    if (isMissing("openssl")) this.skip();
    const alternativeNames = { dns: ["*.example.com"], ip: ["10.0.0.1"], email: ["a@b.example"], uri: ["urn:x:y"] };

    const text = judges.opensslText(
      await newLeaf(await newRoot(), { alternativeNames, publicKey: rsaPublicKey(2048) }),
    );

    expect(text).to.match(/Version: 3/);
    expect(text).to.match(/X509v3 Basic Constraints: critical\s+CA:FALSE\s/);
    expect(text).to.match(/X509v3 Key Usage: critical\s+Digital Signature, Key Encipherment\s/);
    expect(text).to.match(/X509v3 Extended Key Usage: \s+TLS Web Server Authentication\s/);
    expect(text).to.match(/DNS:\*\.example\.com, IP Address:10\.0\.0\.1, email:a@b\.example, URI:urn:x:y\s/);
    expect(text).to.match(/OCSP - URI:http:\S+\s+CA Issuers - URI:http:\S+\s/);
    expect(text).to.match(/X509v3 CRL Distribution Points: \s+Full Name:\s+URI:http:\S+\s/);
  });
});
