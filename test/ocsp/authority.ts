import "reflect-metadata";
import { createHash, KeyObject, webcrypto } from "node:crypto";
import { AsnConvert } from "@peculiar/asn1-schema";
import { SubjectPublicKeyInfo } from "@peculiar/asn1-x509";
import * as x509 from "@peculiar/x509";
import type { Authority, Signer } from "../../src/ocsp/status-source.ts";
import { toPem } from "../../src/standards/x509/pem.ts";
import { newSerialNumber } from "../../src/standards/x509/serial-number.ts";
import type { IssuerNames } from "../standards/ocsp/requests.ts";

x509.cryptoProvider.set(webcrypto as never);

const algorithms = {
  RSA: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256", publicExponent: new Uint8Array([1, 0, 1]), modulusLength: 2048 },
  ECDSA: { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" },
  Ed25519: { name: "Ed25519" },
} as const;

export type Kind = keyof typeof algorithms;

const newKeys = async (kind: Kind) =>
  (await webcrypto.subtle.generateKey(algorithms[kind], true, ["sign", "verify"])) as webcrypto.CryptoKeyPair;

const dayMs = 86_400_000;
const inDays = (days: number) => new Date(Math.floor(Date.now() / 1000) * 1000 + days * dayMs);

/** An authority with a delegated responder, made by another library than ours. */
export class TestAuthority implements Authority {
  readonly id: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly certificate: x509.X509Certificate;
  readonly #keys: webcrypto.CryptoKeyPair;
  readonly #kind: Kind;

  private constructor(kind: Kind, certificate: x509.X509Certificate, keys: webcrypto.CryptoKeyPair) {
    this.id = crypto.randomUUID();
    this.notBefore = certificate.notBefore;
    this.notAfter = certificate.notAfter;
    this.certificate = certificate;
    this.#keys = keys;
    this.#kind = kind;
  }

  static async create(kind: Kind = "ECDSA"): Promise<TestAuthority> {
    const keys = await newKeys(kind);
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      serialNumber: newSerialNumber(),
      name: `CN=${kind} authority`,
      notBefore: inDays(-1000),
      notAfter: inDays(1000),
      keys,
      signingAlgorithm: algorithms[kind],
      extensions: [
        new x509.BasicConstraintsExtension(true, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    return new TestAuthority(kind, certificate, keys);
  }

  get pem(): string {
    return toPem("CERTIFICATE", new Uint8Array(this.certificate.rawData));
  }

  /** What a CertID hashes. */
  get names(): IssuerNames {
    return { name: new Uint8Array(this.certificate.subjectName.toArrayBuffer()), keyBits: keyBits(this.certificate) };
  }

  /** The certificate of a server, in PEM. */
  async issue(serialNumber: string): Promise<string> {
    const certificate = await this.#issue(await newKeys("ECDSA"), serialNumber, "server.example.com", 90, []);
    return toPem("CERTIFICATE", new Uint8Array(certificate.rawData));
  }

  /** A responder for so many days (RFC 6960 section 4.2.2.2). */
  async newSigner(days = 30): Promise<Signer> {
    const keys = await newKeys("ECDSA");
    const certificate = await this.#issue(keys, newSerialNumber(), "responder", days, [
      new x509.ExtendedKeyUsageExtension(["1.3.6.1.5.5.7.3.9"]),
      new x509.Extension("1.3.6.1.5.5.7.48.1.5", false, Buffer.of(5, 0)),
    ]);
    return {
      certificate: new Uint8Array(certificate.rawData),
      privateKey: KeyObject.from(keys.privateKey),
      keyHash: createHash("sha1").update(keyBits(certificate)).digest(),
      notBefore: certificate.notBefore,
      notAfter: certificate.notAfter,
    };
  }

  async #issue(
    keys: webcrypto.CryptoKeyPair,
    serialNumber: string,
    name: string,
    days: number,
    extensions: x509.Extension[],
  ): Promise<x509.X509Certificate> {
    return x509.X509CertificateGenerator.create({
      serialNumber,
      subject: `CN=${name}`,
      issuer: this.certificate.subject,
      notBefore: inDays(-1),
      notAfter: inDays(days),
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      signingAlgorithm: algorithms[this.#kind],
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        await x509.AuthorityKeyIdentifierExtension.create(this.#keys.publicKey),
        ...extensions,
      ],
    });
  }
}

const keyBits = ({ publicKey }: x509.X509Certificate) =>
  new Uint8Array(AsnConvert.parse(publicKey.rawData, SubjectPublicKeyInfo).subjectPublicKey);
