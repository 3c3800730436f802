import { expect } from "chai";
import { octetString, sequence, tlv } from "../../../src/standards/der.ts";
import { MalformedRequest, readOcspRequest } from "../../../src/standards/ocsp/request.ts";
import { certId, derNull, extension, nonceExtension, nonceId, ocspRequest } from "./requests.ts";

const read = (fields: Parameters<typeof ocspRequest>[0] = {}) => readOcspRequest(ocspRequest(fields));
const one = (fields: Parameters<typeof certId>[0]) => {
  const [found] = read({ certIds: [certId(fields)] }).certIds;
  if (found === undefined) throw new Error("nothing was read");
  return found;
};
const unknownId = "1.2.3.4";

describe("An OCSP request", () => {
  describe("is read", () => {
    it("with its certificates in their order, each as it stands there", () => {
      const certIds = [1, 2, 3].map((serial) => certId({ serial: Buffer.of(serial) }));

      const request = read({ certIds });

      expect(request.certIds.map(({ bytes }) => bytes.toString("hex"))).to.deep.equal(
        certIds.map((bytes) => bytes.toString("hex")),
      );
      expect(request.certIds.map(({ serialNumber }) => serialNumber)).to.deep.equal(["1", "2", "3"]);
      expect(request.nonce).to.equal(undefined);
    });

    it("with hashes of SHA-1 and SHA-2, whose parameters are NULL or absent", () => {
      for (const [hash, name] of [
        ["sha1", "SHA-1"],
        ["sha256", "SHA-256"],
        ["sha384", "SHA-384"],
        ["sha512", "SHA-512"],
      ] as const) {
        expect(one({ hash, parameters: [derNull] }).hashAlgorithm).to.equal(name);
        expect(one({ hash, parameters: [] }).hashAlgorithm).to.equal(name);
      }
    });

    it("as one about a foreign issuer, when its hashes are of an algorithm that no issuer here is known by", () => {
      expect(one({ hash: "md5" }).hashAlgorithm).to.equal(undefined);
      expect(one({ hash: "md5", parameters: [sequence()] }).hashAlgorithm).to.equal(undefined);
    });

    it("as one about a foreign issuer, when its hashes have not the length of their algorithm", () => {
      const sha256 = certId({ hash: "sha256" });
      const mislabelled = Buffer.from(sha256);
      // The last arc of SHA-256 is 1, that of SHA-512 is 3.
      mislabelled[sha256.indexOf("608648016503040201", "hex") + 8] = 3;

      expect(read({ certIds: [mislabelled] }).certIds[0]?.hashAlgorithm).to.equal(undefined);
    });

    it("with a serial number in hexadecimal digits without leading zeros", () => {
      const numbers: readonly (readonly [string, string | undefined])[] = [
        ["00", "0"],
        ["01", "1"],
        ["0a", "a"],
        ["10", "10"],
        ["00ff", "ff"],
        ["4000000000000000000000000000000000000001", "4000000000000000000000000000000000000001"],
        [`00${"ff".repeat(20)}`, "ff".repeat(20)],
        [`01${"00".repeat(20)}`, undefined],
        ["ff", undefined],
        ["80", undefined],
        ["7f".repeat(30_000), undefined],
      ];

      for (const [octets, digits] of numbers) {
        expect(one({ serial: Buffer.from(octets, "hex") }).serialNumber, octets.slice(0, 50)).to.equal(digits);
      }
    });

    it("with a nonce of 1 to 128 octets, also where its length takes two", () => {
      for (const length of [1, 16, 32, 127, 128]) {
        const nonce = Buffer.alloc(length, 7);

        expect(read({ extensions: [nonceExtension(nonce)] }).nonce?.toString("hex")).to.equal(nonce.toString("hex"));
      }
      const critical = extension(nonceId, octetString(Buffer.of(1)), true);
      expect(read({ extensions: [critical] }).nonce?.toString("hex")).to.equal("01");
    });

    it("past a requestor's name, a signature, and the version that all requests have", () => {
      const fields = {
        requestorName: tlv(0x82, Buffer.from("example.com")),
        isSigned: true,
        version: Buffer.from("020100", "hex"),
      };

      expect(read(fields).certIds).to.have.length(1);
    });

    it("past extensions that are not critical, and critical ones that it can do justice to", () => {
      const unknown = extension(unknownId, Buffer.of(1, 2, 3));
      const notCritical = extension(unknownId, Buffer.alloc(0), false);
      const acceptable = extension("1.3.6.1.5.5.7.48.1.4", sequence(), true);
      const nonce = nonceExtension(Buffer.of(1));

      const request = read({
        extensions: [unknown, nonce, notCritical, acceptable],
        singleExtensions: [unknown, nonce],
      });

      expect(request.nonce?.toString("hex")).to.equal("01");
      expect(read({ singleExtensions: [nonce] }).nonce).to.equal(undefined);
    });

    it("about 16 certificates, and of 64 KiB", () => {
      const certIds = Array.from({ length: 16 }, (_, serial) => certId({ serial: Buffer.of(serial) }));
      const filler = 64 * 1024 - ocspRequest({ extensions: [extension(unknownId, Buffer.alloc(60_000))] }).length;
      const extensions = [extension(unknownId, Buffer.alloc(60_000 + filler))];

      expect(read({ certIds }).certIds).to.have.length(16);
      expect(ocspRequest({ extensions })).to.have.length(64 * 1024);
      expect(read({ extensions }).certIds).to.have.length(1);
    });
  });

  describe("is refused", () => {
    const sound = ocspRequest();
    const nested = (depth: number) => {
      let bytes: Buffer = Buffer.alloc(0);
      for (let count = 0; count < depth; count += 1) bytes = sequence(bytes);
      return bytes;
    };
    const twoNonces = [nonceExtension(Buffer.of(1)), nonceExtension(Buffer.of(1))];
    const refusals: Readonly<Record<string, () => Uint8Array>> = {
      "when it is empty": () => Buffer.alloc(0),
      "when it is text": () => Buffer.from("GET / HTTP/1.1\r\n\r\n"),
      "when something follows it": () => Buffer.concat([sound, Buffer.of(0)]),
      "when its end is missing": () => sound.subarray(0, -1),
      "when it asks about nothing": () => ocspRequest({ certIds: [] }),
      "when it asks about 17 certificates": () => ocspRequest({ certIds: Array.from({ length: 17 }, () => certId()) }),
      "when it asks about 1,000 certificates": () =>
        ocspRequest({ certIds: Array.from({ length: 1000 }, () => certId({ hash: "sha1" })) }),
      "when it is larger than 64 KiB": () =>
        ocspRequest({ extensions: [extension(unknownId, Buffer.alloc(64 * 1024))] }),
      "when its nonce is empty": () => ocspRequest({ extensions: [nonceExtension(Buffer.alloc(0))] }),
      "when its nonce has 129 octets": () => ocspRequest({ extensions: [nonceExtension(Buffer.alloc(129))] }),
      "when its nonce is no OCTET STRING within the extension's": () =>
        ocspRequest({ extensions: [extension(nonceId, Buffer.alloc(16, 1))] }),
      "when something follows its nonce": () =>
        ocspRequest({ extensions: [extension(nonceId, Buffer.concat([octetString(Buffer.of(1)), derNull]))] }),
      "when it has two nonces": () => ocspRequest({ extensions: twoNonces }),
      "when it has extensions, but none": () => ocspRequest({ extensions: [] }),
      "when an extension that is not known is critical": () =>
        ocspRequest({ extensions: [extension(unknownId, Buffer.of(1), true)] }),
      "when an extension of one certificate that is not known is critical": () =>
        ocspRequest({ singleExtensions: [extension(unknownId, Buffer.of(1), true)] }),
      "when it has another version": () => ocspRequest({ version: Buffer.from("020101", "hex") }),
      "when its version is no number": () => ocspRequest({ version: Buffer.from("040100", "hex") }),
      "when its requestor's name is two values": () => ocspRequest({ requestorName: Buffer.from("05000500", "hex") }),
      "when a known hash algorithm has parameters": () =>
        ocspRequest({ certIds: [certId({ parameters: [sequence()] })] }),
      "when a hash algorithm has two parameters": () =>
        ocspRequest({ certIds: [certId({ parameters: [derNull, derNull] })] }),
      "when a serial number has no octets": () => ocspRequest({ certIds: [certId({ serial: Buffer.alloc(0) })] }),
      "when a serial number has zeros before it": () => ocspRequest({ certIds: [certId({ serial: Buffer.of(0, 1) })] }),
      "when something follows a serial number": () =>
        ocspRequest({ certIds: [sequence(certId().subarray(2), derNull)] }),
      "when it is nested without end": () => nested(5000),
      "when it is nested without end where anything may stand": () => ocspRequest({ certIds: [nested(5000)] }),
    };
    for (const [when, bytes] of Object.entries(refusals)) {
      it(when, () => {
        expect(() => readOcspRequest(bytes())).to.throw(MalformedRequest);
      });
    }

    it("at whatever octet it is cut", () => {
      const whole = ocspRequest({ extensions: [nonceExtension(Buffer.alloc(32))], isSigned: true });

      for (let length = 0; length < whole.length; length += 1) {
        expect(() => readOcspRequest(whole.subarray(0, length)), String(length)).to.throw(MalformedRequest);
      }
    });
  });
});
