import "reflect-metadata";
import { spawnSync } from "node:child_process";
import { constants, generateKeyPairSync, sign, webcrypto } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Pkcs10CertificateRequestGenerator } from "@peculiar/x509";
import { expect } from "chai";
import { explicit, integerFromHex, octetString, oid, sequence, tags, tlv } from "../../../src/standards/der.ts";
import { type Csr, InvalidCsr, readCsr } from "../../../src/standards/x509/csr.ts";
import { type KeyKind, type KeyPair, newKeyPair } from "../../../src/standards/x509/key-pairs.ts";
import { isMissing } from "../../harness/installed.ts";
import { noName, noNames } from "./issuing.ts";
import { attribute, attributes, extensionRequest, hostNames, requestDer, requestPem } from "./requests.ts";

/** Why a request is refused; undefined when it is not. */
function refusalOf(pem: string): string | undefined {
  try {
    readCsr(pem);
    return undefined;
  } catch (error) {
    expect(error).to.be.instanceOf(InvalidCsr);
    return (error as InvalidCsr).message;
  }
}

const p256: KeyKind = { algorithm: "ECDSA", size: 256 };

describe("A certificate signing request of other software", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  after(() => rmSync(folder, { recursive: true }));

  // It takes seconds, now and then.
  const rsaKey = ["-key", join(folder, "rsa.pem")];
  before(async () => {
    const { privateKey } = await newKeyPair({ algorithm: "RSA", size: 2048 });
    writeFileSync(join(folder, "rsa.pem"), privateKey.export({ format: "pem", type: "pkcs8" }));
  });

  /** A request of openssl for a key that it has or makes. */
  function opensslRequest(key: readonly string[], ...options: readonly string[]): string {
    const args = ["req", "-new", "-nodes", "-subj", "/C=DE/O=Exämple/OU=Web/CN=www.example.com", "-utf8"];
    const keyout = ["-keyout", join(folder, "key.pem")];
    const { status, stdout, stderr } = spawnSync("openssl", [...args, ...keyout, ...key, ...options], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(stderr);
    return stdout;
  }
  const curve = (name: string) => ["-newkey", "ec", "-pkeyopt", `ec_paramgen_curve:${name}`];
  const pss = (hash: string, salt: number) =>
    ["rsa_padding_mode:pss", `rsa_pss_saltlen:${salt}`].flatMap((each) => ["-sigopt", each]).concat(`-${hash}`);

  const readable: readonly (readonly [what: string, kind: KeyKind, key: string[], options?: string[]])[] = [
    ["RSA 2048", { algorithm: "RSA", size: 2048 }, rsaKey],
    ["RSA 2048 with SHA-384", { algorithm: "RSA", size: 2048 }, rsaKey, ["-sha384"]],
    ["RSA 2048 with SHA-512", { algorithm: "RSA", size: 2048 }, rsaKey, ["-sha512"]],
    ["RSA 2048 by RSASSA-PSS", { algorithm: "RSA", size: 2048 }, rsaKey, pss("sha256", 32)],
    ["RSA 2048 by RSASSA-PSS, SHA-512, the usual salt", { algorithm: "RSA", size: 2048 }, rsaKey, pss("sha512", 20)],
    ["P-256", p256, curve("prime256v1")],
    ["P-256 with SHA-512", p256, curve("prime256v1"), ["-sha512"]],
    ["P-384", { algorithm: "ECDSA", size: 384 }, curve("secp384r1")],
    ["P-521", { algorithm: "ECDSA", size: 521 }, curve("secp521r1"), ["-sha512"]],
    ["Ed25519", { algorithm: "Ed25519", size: 256 }, ["-newkey", "ed25519"]],
  ];
  for (const [what, kind, key, options = []] of readable) {
    it(`is read: openssl, ${what}`, function () {
      if (isMissing("openssl")) this.skip();

      const { publicKey, ...csr } = readCsr(opensslRequest(key, ...options));

      const subject = { ...noName, commonName: "www.example.com", organization: "Exämple", organizationalUnit: "Web" };
      expect(csr).to.deep.equal({ kind, subject: { ...subject, country: "DE" }, alternativeNames: noNames });
      expect(publicKey.type).to.equal("public");
    });
  }

  const unreadable: readonly (readonly [what: string, reason: RegExp, key: string[], options?: string[]])[] = [
    ["RSA 1024", /2048 to 4096 bits/, ["-newkey", "rsa:1024"]],
    ["secp256k1", /the key must be/, curve("secp256k1")],
    ["Ed448", /the key must be/, ["-newkey", "ed448"]],
    ["SHA-1", /must be signed by/, rsaKey, ["-sha1"]],
    ["SHA-224", /must be signed by/, curve("prime256v1"), ["-sha224"]],
    ["RSASSA-PSS with SHA-1", /must be signed by|malformed/, rsaKey, pss("sha1", 20)],
    ["explicit curve", /the key must be/, [...curve("prime256v1"), "-pkeyopt", "ec_param_enc:explicit"]],
  ];
  for (const [what, reason, key, options = []] of unreadable) {
    it(`is refused: openssl, ${what}`, function () {
      if (isMissing("openssl")) this.skip();

      expect(refusalOf(opensslRequest(key, ...options))).to.match(reason);
    });
  }

  it("gives its alternative names and nothing else that it asks for", function () {
    if (isMissing("openssl")) this.skip();
    const names = "DNS:a.example,DNS:*.B.example,IP:10.0.0.1,IP:2001:db8::1,email:a@b.example,URI:urn:x:y";
    const asked = [
      `subjectAltName=critical,${names},otherName:1.2.3;UTF8:x,RID:1.2.3.4`,
      "basicConstraints=critical,CA:TRUE,pathlen:9",
      "keyUsage=critical,keyCertSign,cRLSign",
      "extendedKeyUsage=OCSPSigning,codeSigning,anyExtendedKeyUsage",
      "nameConstraints=critical,permitted;DNS:evil.example",
      "noCheck=ignored",
      "1.2.3.4.5=critical,DER:00:01:02:ff",
    ];

    const csr = readCsr(opensslRequest(curve("prime256v1"), ...asked.flatMap((each) => ["-addext", each])));

    expect(Object.keys(csr).sort()).to.deep.equal(["alternativeNames", "kind", "publicKey", "subject"]);
    expect(csr.alternativeNames).to.deep.equal({
      dns: ["a.example", "*.B.example"],
      ip: ["10.0.0.1", "2001:db8::1"],
      email: ["a@b.example"],
      uri: ["urn:x:y"],
    });
  });

  it("is read: GnuTLS", function () {
    if (isMissing("certtool")) this.skip();
    const template = join(folder, "template");
    const key = join(folder, "gnutls.pem");
    writeFileSync(
      template,
      'cn = "www.example.com"\ncountry = DE\ndns_name = "a.example"\nip_address = "10.0.0.1"\nca\n',
    );
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-384" });
    writeFileSync(key, privateKey.export({ format: "pem", type: "pkcs8" }));
    const args = [
      "--generate-request",
      "--load-privkey",
      key,
      "--template",
      template,
      "--outfile",
      join(folder, "csr"),
    ];
    expect(spawnSync("certtool", args).status).to.equal(0);

    const csr = readCsr(readFileSync(join(folder, "csr"), "utf8"));

    expect(csr.subject).to.deep.equal({ ...noName, commonName: "www.example.com", country: "DE" });
    expect(csr.alternativeNames).to.deep.equal({ ...noNames, dns: ["a.example"], ip: ["10.0.0.1"] });
  });

  it("is read: @peculiar/x509", async () => {
    const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
    const options = { name: "CN=www.example.com", keys, signingAlgorithm: algorithm };

    const request = await Pkcs10CertificateRequestGenerator.create(options, webcrypto);

    expect(readCsr(request.toString("pem")).subject.commonName).to.equal("www.example.com");
  });
});

describe("A certificate signing request", () => {
  let keys: KeyPair;
  let others: KeyPair;
  let rsa: KeyPair;
  before(async () => {
    keys = await newKeyPair(p256);
    others = await newKeyPair(p256);
    rsa = await newKeyPair({ algorithm: "RSA", size: 2048 });
  });

  const asking = (...extensions: readonly Uint8Array[]) => ({
    rest: [attributes(attribute(extensionRequest, sequence(...extensions)))],
  });

  const accepted: Readonly<Record<string, () => string>> = {
    "with old words around it": () => requestPem(requestDer(keys), "NEW CERTIFICATE REQUEST"),
    "with line breaks of Windows": () => requestPem(requestDer(keys)).replaceAll("\n", "\r\n"),
    "with blank lines around it": () => `\n\n${requestPem(requestDer(keys))}\n\n`,
    "with explanations around it": () => `Subject: x\n\n${requestPem(requestDer(keys))}That was it.\n`,
    "in one line": () =>
      `-----BEGIN CERTIFICATE REQUEST-----\n${requestDer(keys).toString("base64")}\n-----END CERTIFICATE REQUEST-----`,
    "without attributes": () => requestPem(requestDer(keys, { rest: [] })),
    "without a subject": () => requestPem(requestDer(keys, { subject: sequence() })),
    "with attributes of other kinds": () =>
      requestPem(
        requestDer(keys, { rest: [attributes(attribute("1.2.840.113549.1.9.7", tlv(0x0c, Buffer.from("x"))))] }),
      ),
  };
  for (const [what, pem] of Object.entries(accepted)) {
    it(`is read ${what}`, () => {
      const csr: Csr = readCsr(pem());

      expect(csr.kind).to.deep.equal(p256);
      expect(csr.publicKey.equals(keys.publicKey)).to.equal(true);
    });
  }

  it("may ask for its names under the number that Microsoft gave extensions", () => {
    const rest = [attributes(attribute("1.3.6.1.4.1.311.2.1.14", sequence(hostNames("a.example"))))];

    expect(readCsr(requestPem(requestDer(keys, { rest }))).alternativeNames.dns).to.deep.equal(["a.example"]);
  });

  const identifier = (id: string, ...parameters: readonly Uint8Array[]) => sequence(oid(id), ...parameters);
  const nullValue = tlv(tags.null);
  const sha256 = identifier("2.16.840.1.101.3.4.2.1", nullValue);
  const sha384 = identifier("2.16.840.1.101.3.4.2.2", nullValue);
  const mgf1 = (hash: Uint8Array) => identifier("1.2.840.113549.1.1.8", hash);
  const pss = (...parameters: readonly Uint8Array[]) => identifier("1.2.840.113549.1.1.10", sequence(...parameters));
  const salt = (hex: string) => explicit(2, tlv(tags.integer, Buffer.from(hex, "hex")));
  const signedByPss = (saltLength: number) => (signed: Uint8Array) =>
    sign("sha256", signed, { key: rsa.privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength });

  for (const saltLength of [0, 20, 32, 222]) {
    it(`is read when it is signed by RSASSA-PSS with a salt of ${saltLength} octets`, () => {
      const parameters = [
        explicit(0, sha256),
        explicit(1, mgf1(sha256)),
        explicit(2, integerFromHex(saltLength.toString(16))),
      ];
      const parts = { algorithm: pss(...parameters), sign: signedByPss(saltLength) };

      expect(readCsr(requestPem(requestDer(rsa, parts))).kind.algorithm).to.equal("RSA");
    });
  }

  const hashes = [explicit(0, sha256), explicit(1, mgf1(sha256))];
  const ecdsaWithSha256 = "1.2.840.10045.4.3.2";
  const refused: Readonly<Record<string, readonly [reason: RegExp, pem: () => string]>> = {
    "that is nothing": [/one certificate signing request/, () => ""],
    "that is a text": [/one certificate signing request/, () => "hello"],
    "that is a certificate": [/one certificate signing request/, () => requestPem(requestDer(keys), "CERTIFICATE")],
    "that begins as one thing and ends as another": [
      /one certificate signing request/,
      () => requestPem(requestDer(keys)).replace("BEGIN CERT", "BEGIN NEW CERT"),
    ],
    "that comes twice": [/one certificate signing request/, () => requestPem(requestDer(keys)).repeat(2)],
    "that comes with its key": [
      /one certificate signing request/,
      () => requestPem(requestDer(keys)) + keys.privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
    ],
    "that does not begin a line": [/one certificate signing request/, () => `a ${requestPem(requestDer(keys))}`],
    "that does not end its line": [/one certificate signing request/, () => `${requestPem(requestDer(keys)).trim()}a`],
    "of more than 64 KiB": [/at most 65536/, () => requestPem(requestDer(keys)) + "\n".repeat(65_536)],
    "that is no base64": [/base64/, () => requestPem(requestDer(keys)).replace("\nMI", "\nM=I")],
    "with bytes after it": [/malformed/, () => requestPem(Buffer.concat([requestDer(keys), Buffer.of(0)]))],
    "that is cut off": [/malformed/, () => requestPem(requestDer(keys).subarray(0, -1))],
    "with more than a signature": [/malformed/, () => requestPem(requestDer(keys, { tail: [nullValue] }))],
    "with more than attributes": [/malformed/, () => requestPem(requestDer(keys, { rest: [attributes(), nullValue] }))],
    "of version 2": [/version 1/, () => requestPem(requestDer(keys, { version: integerFromHex("1") }))],
    "that is signed by another key": [
      /not signed by the key/,
      () => requestPem(requestDer(keys, { sign: (signed) => sign("sha256", signed, others.privateKey) })),
    ],
    "whose signature is of other bytes": [
      /not signed by the key/,
      () => requestPem(requestDer(keys, { sign: () => sign("sha256", Buffer.of(1), keys.privateKey) })),
    ],
    "with an empty signature": [
      /not signed by the key/,
      () => requestPem(requestDer(keys, { sign: () => Buffer.of() })),
    ],
    "whose signature does not consist of whole octets": [
      /malformed/,
      () => {
        const der = requestDer(keys, { sign: () => Buffer.of(0xaa, 0xbb) });
        der[der.length - 3] = 1;
        return requestPem(der);
      },
    ],
    "with an algorithm that does not go with its key": [
      /not signed by the key/,
      () => requestPem(requestDer(rsa, { algorithm: identifier(ecdsaWithSha256) })),
    ],
    "with parameters that ECDSA does not have": [
      /must be signed by/,
      () => requestPem(requestDer(keys, { algorithm: identifier(ecdsaWithSha256, nullValue) })),
    ],
    "with an algorithm that is unknown": [
      /must be signed by/,
      () => requestPem(requestDer(keys, { algorithm: identifier("1.2.3") })),
    ],
    "signed by RSASSA-PSS with another salt than it says": [
      /not signed by the key/,
      () => requestPem(requestDer(rsa, { algorithm: pss(...hashes, salt("20")), sign: signedByPss(20) })),
    ],
    "signed by RSASSA-PSS with a salt below zero, which is any": [
      /must be signed by/,
      () => requestPem(requestDer(rsa, { algorithm: pss(...hashes, salt("fe")), sign: signedByPss(32) })),
    ],
    "signed by RSASSA-PSS with an endless salt": [
      /must be signed by/,
      () => requestPem(requestDer(rsa, { algorithm: pss(...hashes, salt("7fffffff")), sign: signedByPss(32) })),
    ],
    "signed by RSASSA-PSS with two hashes": [
      /must be signed by/,
      () => {
        const parameters = [explicit(0, sha256), explicit(1, mgf1(sha384)), salt("20")];
        return requestPem(requestDer(rsa, { algorithm: pss(...parameters), sign: signedByPss(32) }));
      },
    ],
    "that asks for alternative names twice": [
      /once only/,
      () => requestPem(requestDer(keys, asking(hostNames("a.example"), hostNames("b.example")))),
    ],
    "that asks for extensions in two values of an attribute": [
      /malformed/,
      () =>
        requestPem(
          requestDer(keys, {
            rest: [
              attributes(
                attribute(extensionRequest, sequence(hostNames("a.example")), sequence(hostNames("b.example"))),
              ),
            ],
          }),
        ),
    ],
    "with more than values in the attribute that asks for extensions": [
      /malformed/,
      () => {
        const asked = tlv(tags.set, sequence(hostNames("a.example")));
        return requestPem(requestDer(keys, { rest: [attributes(sequence(oid(extensionRequest), asked, nullValue))] }));
      },
    ],
    "with more than a value in an extension": [
      /malformed/,
      () => requestPem(requestDer(keys, asking(sequence(oid("2.5.29.17"), octetString(sequence()), nullValue)))),
    ],
    "that asks for names which are none": [
      /malformed/,
      () => requestPem(requestDer(keys, asking(sequence(oid("2.5.29.17"), tlv(tags.octetString, Buffer.of(1, 2)))))),
    ],
    "that asks for names beyond ASCII": [
      /malformed/,
      () => requestPem(requestDer(keys, asking(hostNames("bücher.example")))),
    ],
    "that asks for 101 names": [
      /at most 100/,
      () =>
        requestPem(
          requestDer(keys, asking(hostNames(...Array.from({ length: 101 }, (_, index) => `a${index}.example`)))),
        ),
    ],
  };
  for (const [what, [reason, pem]] of Object.entries(refused)) {
    it(`is refused ${what}`, () => {
      expect(refusalOf(pem())).to.match(reason);
    });
  }
});
