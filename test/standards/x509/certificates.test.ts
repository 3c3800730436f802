import "reflect-metadata";
import { X509Certificate as NodeCertificate, webcrypto } from "node:crypto";
import { AsnConvert } from "@peculiar/asn1-schema";
import {
  AttributeTypeAndValue,
  AttributeValue,
  Certificate,
  Extension,
  Extensions,
  Name,
  RelativeDistinguishedName,
} from "@peculiar/asn1-x509";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
} from "@peculiar/x509";
import { expect } from "chai";
import {
  issueResponder,
  keyIdentifier,
  type Profile,
  publicKeyBits,
  subjectDer,
} from "../../../src/standards/x509/certificates.ts";
import { newKeyPair } from "../../../src/standards/x509/key-pairs.ts";
import { newSerialNumber } from "../../../src/standards/x509/serial-number.ts";
import { type Authority, newIntermediate, newLeaf, newRoot, noName, noNames, pointers } from "./issuing.ts";
import { rsaPublicKey } from "./keys.ts";

const parse = (certificate: Uint8Array) => new X509Certificate(new Uint8Array(certificate));

/** Each extension by its number, as "critical hex" or "hex". */
function extensionsOf(certificate: Uint8Array): Map<string, string> {
  const { extensions = [] } = AsnConvert.parse(certificate, Certificate).tbsCertificate;
  return new Map(
    extensions.map(({ extnID, critical, extnValue }) => {
      const value = Buffer.from(extnValue.buffer).toString("hex");
      return [extnID, critical ? `critical ${value}` : value];
    }),
  );
}

const ids = {
  subjectKeyIdentifier: "2.5.29.14",
  keyUsage: "2.5.29.15",
  subjectAltName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  nameConstraints: "2.5.29.30",
  crlDistributionPoints: "2.5.29.31",
  authorityKeyIdentifier: "2.5.29.35",
  extendedKeyUsage: "2.5.29.37",
  authorityInfoAccess: "1.3.6.1.5.5.7.1.1",
  ocspNoCheck: "1.3.6.1.5.5.7.48.1.5",
};

describe("A certificate", () => {
  let root: Authority;
  before(async () => {
    root = await newRoot();
  });

  it("of a root is that of an authority, signed by itself, without pointers", () => {
    const { certificate } = root;

    expect(new NodeCertificate(certificate).verify(root.keys.publicKey)).to.equal(true);
    expect([...extensionsOf(certificate).keys()].sort()).to.deep.equal(
      [ids.basicConstraints, ids.keyUsage, ids.subjectKeyIdentifier].sort(),
    );
    expect(extensionsOf(certificate).get(ids.basicConstraints)).to.equal("critical 30030101ff");
    expect(extensionsOf(certificate).get(ids.keyUsage)).to.equal("critical 03020106");
  });

  it("of an intermediate is that of an authority, with the length of its path and pointers", async () => {
    const intermediate = await newIntermediate(root, { maxPathLength: 0 });

    const found = extensionsOf(intermediate.certificate);
    expect(found.get(ids.basicConstraints)).to.equal("critical 30060101ff020100");
    expect(found.get(ids.keyUsage)).to.equal("critical 03020106");
    expect(found.has(ids.authorityInfoAccess) && found.has(ids.crlDistributionPoints)).to.equal(true);
    expect(found.has(ids.extendedKeyUsage)).to.equal(false);
  });

  it("of an authority holds name constraints that are critical, and none that list nothing", async () => {
    const dns = { ...noNames, dns: ["example.com"] };
    const constrained = await newRoot({ nameConstraints: { permitted: dns, excluded: noNames } });
    const free = await newRoot({ nameConstraints: { permitted: noNames, excluded: noNames } });

    expect(extensionsOf(constrained.certificate).get(ids.nameConstraints)).to.match(/^critical 30/);
    expect(extensionsOf(free.certificate).has(ids.nameConstraints)).to.equal(false);
  });

  const usages: readonly (readonly [Profile, key: "ECDSA" | "RSA", usage: KeyUsageFlags, purposes: string[]])[] = [
    ["server", "ECDSA", KeyUsageFlags.digitalSignature, ["1.3.6.1.5.5.7.3.1"]],
    ["client", "ECDSA", KeyUsageFlags.digitalSignature, ["1.3.6.1.5.5.7.3.2"]],
    ["server_client", "ECDSA", KeyUsageFlags.digitalSignature, ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]],
    ["server", "RSA", KeyUsageFlags.digitalSignature | KeyUsageFlags.keyEncipherment, ["1.3.6.1.5.5.7.3.1"]],
    ["client", "RSA", KeyUsageFlags.digitalSignature, ["1.3.6.1.5.5.7.3.2"]],
    [
      "server_client",
      "RSA",
      KeyUsageFlags.digitalSignature | KeyUsageFlags.keyEncipherment,
      ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"],
    ],
  ];
  for (const [profile, key, usage, purposes] of usages) {
    it(`of profile ${profile} for ${key} is for that and nothing else`, async () => {
      const publicKey = key === "RSA" ? rsaPublicKey(2048) : root.keys.publicKey;

      const certificate = parse(await newLeaf(root, { profile, publicKey }));

      const keyUsages = certificate.getExtension(KeyUsagesExtension);
      expect([keyUsages?.usages, keyUsages?.critical]).to.deep.equal([usage, true]);
      expect(certificate.getExtension(ExtendedKeyUsageExtension)?.usages).to.deep.equal(purposes);
      const constraints = certificate.getExtension(BasicConstraintsExtension);
      expect([constraints?.ca, constraints?.critical]).to.deep.equal([false, true]);
    });
  }

  it("points to where its status is asked for", async () => {
    const { infoAccess } = new NodeCertificate(await newLeaf(root));
    const found = extensionsOf(await newLeaf(root)).get(ids.crlDistributionPoints) ?? "";

    expect(infoAccess?.trim()).to.equal(`OCSP - URI:${pointers.ocsp}\nCA Issuers - URI:${pointers.caIssuers}`);
    expect(Buffer.from(found, "hex").toString("latin1")).to.include(pointers.crl);
  });

  it("names its alternatives, critically so without a subject", async () => {
    const alternativeNames = { dns: ["a.example"], ip: ["10.0.0.1", "::1"], email: ["a@b.example"], uri: ["urn:x:y"] };
    const named = await newLeaf(root, { alternativeNames });
    const nameless = await newLeaf(root, { alternativeNames, subject: noName });

    const text = "DNS:a.example, IP Address:10.0.0.1, IP Address:0:0:0:0:0:0:0:1, email:a@b.example, URI:urn:x:y";
    expect(new NodeCertificate(named).subjectAltName).to.equal(text);
    expect(extensionsOf(named).get(ids.subjectAltName)).to.not.match(/critical/);
    expect(extensionsOf(nameless).get(ids.subjectAltName)).to.match(/^critical /);
    expect(Buffer.from(subjectDer(nameless)).toString("hex")).to.equal("3000");
  });

  it("may do without alternative names when it has a subject, and names somebody in any case", async () => {
    const subject = { ...noName, commonName: "Alice" };
    const alice = await newLeaf(root, { alternativeNames: noNames, subject, profile: "client" });
    const error: unknown = await newLeaf(root, { alternativeNames: noNames, subject: noName }).catch((error) => error);

    expect(extensionsOf(alice).has(ids.subjectAltName)).to.equal(false);
    expect(error).to.be.instanceOf(RangeError);
  });

  it("of a responder is for OCSP only, is not asked about itself, and points nowhere", async () => {
    const { publicKey } = await newKeyPair({ algorithm: "ECDSA", size: 256 });
    const times = { notBefore: new Date(Date.now() - 1000), notAfter: new Date(Date.now() + 86_400_000) };
    const subject = { ...noName, commonName: "OCSP" };

    const certificate = await issueResponder(root, { serialNumber: newSerialNumber(), subject, publicKey, ...times });

    const found = extensionsOf(certificate);
    expect(parse(certificate).getExtension(ExtendedKeyUsageExtension)?.usages).to.deep.equal(["1.3.6.1.5.5.7.3.9"]);
    expect(found.get(ids.keyUsage)).to.equal("critical 03020780");
    expect(found.get(ids.ocspNoCheck)).to.equal("0500");
    expect(found.get(ids.basicConstraints)).to.equal("critical 3000");
    expect(found.has(ids.authorityInfoAccess) || found.has(ids.crlDistributionPoints)).to.equal(false);
  });

  it("names an issuer that was not made here byte for byte, and its key by the identifier that stands there", async () => {
    const foreign = AsnConvert.parse(root.certificate, Certificate);
    const country = new AttributeTypeAndValue({
      type: "2.5.4.6",
      value: new AttributeValue({ printableString: "de" }),
    });
    const organization = new AttributeTypeAndValue({
      type: "2.5.4.10",
      value: new AttributeValue({ bmpString: "Öl" }),
    });
    foreign.tbsCertificate.subject = new Name([new RelativeDistinguishedName([country, organization])]);
    const identifier = new SubjectKeyIdentifierExtension("0102030405").rawData;
    const { extensions } = foreign.tbsCertificate;
    foreign.tbsCertificate.extensions = new Extensions(
      extensions?.map((each) =>
        each.extnID === ids.subjectKeyIdentifier ? AsnConvert.parse(identifier, Extension) : each,
      ),
    );
    const certificate = new Uint8Array(AsnConvert.serialize(foreign));

    const leaf = await newLeaf({ certificate, privateKey: root.privateKey });

    const { issuer } = AsnConvert.parse(leaf, Certificate).tbsCertificate;
    const bytesOf = (name: Name) => Buffer.from(AsnConvert.serialize(name)).toString("hex");
    expect(bytesOf(issuer)).to.equal(bytesOf(foreign.tbsCertificate.subject));
    expect(Buffer.from(subjectDer(certificate)).toString("hex")).to.equal(bytesOf(issuer));
    expect(parse(leaf).getExtension(AuthorityKeyIdentifierExtension)?.keyId).to.equal("0102030405");
  });

  it("names the key of its issuer by the identifier that stands there", async () => {
    const intermediate = await newIntermediate(root);
    const leaf = parse(await newLeaf(intermediate));

    const { keyId } = parse(intermediate.certificate).getExtension(SubjectKeyIdentifierExtension) ?? {};
    expect(keyId).to.equal(keyIdentifier(intermediate.certificate).toString("hex"));
    expect(leaf.getExtension(AuthorityKeyIdentifierExtension)?.keyId).to.equal(keyId);
  });

  it("has the serial number that it was given, positive and of twenty octets", async () => {
    for (let count = 0; count < 20; count += 1) {
      const serialNumber = newSerialNumber();

      const certificate = await newLeaf(root, { serialNumber });

      expect(new NodeCertificate(certificate).serialNumber.toLowerCase()).to.equal(serialNumber);
      const { serialNumber: octets } = AsnConvert.parse(certificate, Certificate).tbsCertificate;
      expect(Buffer.from(octets).toString("hex")).to.equal(serialNumber);
      expect(octets.byteLength).to.equal(20);
    }
  });

  for (const serialNumber of ["", "01", "7f", "0".repeat(40), `8${"0".repeat(39)}`, "A".repeat(40), "g".repeat(40)]) {
    it(`is not made with the serial number "${serialNumber}"`, async () => {
      const error: unknown = await newLeaf(root, { serialNumber }).catch((error: unknown) => error);

      expect(error).to.be.instanceOf(RangeError);
    });
  }

  it("has times in whole seconds, in two digits of the year through 2049 and in four from then on", async () => {
    const notBefore = new Date("2049-12-31T23:59:59.999Z");
    const notAfter = new Date("2050-01-01T00:00:00.999Z");

    const certificate = await newLeaf(root, { notBefore, notAfter });

    expect(certificate.includes("\x17\x0d491231235959Z\x18\x0f20500101000000Z", 0, "latin1")).to.equal(true);
    const { validFrom, validTo } = new NodeCertificate(certificate);
    expect([validFrom, validTo]).to.deep.equal(["Dec 31 23:59:59 2049 GMT", "Jan  1 00:00:00 2050 GMT"]);
  });

  it("has a key identifier and bits of its key as other software computes them", async () => {
    const { certificate, keys } = root;
    const { subjectPublicKeyInfo } = AsnConvert.parse(certificate, Certificate).tbsCertificate;

    const bits = Buffer.from(subjectPublicKeyInfo.subjectPublicKey);
    expect(Buffer.from(publicKeyBits(certificate)).equals(bits)).to.equal(true);
    expect(keys.publicKey.export({ format: "der", type: "spki" }).subarray(-65).equals(bits)).to.equal(true);
    const identifier = Buffer.from(await parse(certificate).publicKey.getKeyIdentifier(webcrypto));
    expect(keyIdentifier(certificate).equals(identifier)).to.equal(true);
  });
});
