import { expect } from "chai";
import * as der from "../../src/standards/der.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const reading = (digits: string) => new der.DerReader(Buffer.from(digits, "hex"));

describe("DER", () => {
  describe("is written", () => {
    it("with the shortest length there is", () => {
      const lengths = [0, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, 0xffff_ffff];

      expect(lengths.map((length) => hex(der.header(0x30, length)))).to.deep.equal([
        "3000",
        "307f",
        "308180",
        "3081ff",
        "30820100",
        "3082ffff",
        "3083010000",
        "3083ffffff",
        "308401000000",
        "3084ffffffff",
      ]);
    });

    it("with whole numbers that are never negative, in as few octets as they take", () => {
      const written = ["0", "00", "1", "7f", "80", "00ff", "0100", "ffffffffffffffffffffffffffffffffffffffff"];

      expect(written.map((digits) => hex(der.integerFromHex(digits)))).to.deep.equal([
        "020100",
        "020100",
        "020101",
        "02017f",
        "02020080",
        "020200ff",
        "02020100",
        `021500${"ff".repeat(20)}`,
      ]);
    });

    it("with object identifiers whose first two numbers share an octet, and whose others take as many as they need", () => {
      expect(hex(der.oid("1.3.6.1.5.5.7.48.1.1"))).to.equal("06092b0601050507300101");
      expect(hex(der.oid("2.16.840.1.101.3.4.2.1"))).to.equal("0609608648016503040201");
      expect(hex(der.oid("1.2.840.113549.1.1.11"))).to.equal("06092a864886f70d01010b");
      expect(hex(der.oid("2.999.3"))).to.equal("0603883703");
    });

    it("with times of whole seconds in UTC", () => {
      const time = new Date("2026-11-22T03:04:05.999Z");

      expect(der.generalizedTime(time).toString("latin1")).to.equal("\x18\x0f20261122030405Z");
      expect(der.utcTime(time).toString("latin1")).to.equal("\x17\x0d261122030405Z");
      expect(() => der.utcTime(new Date("2050-01-01T00:00:00Z"))).to.throw(RangeError);
      expect(() => der.utcTime(new Date("1949-12-31T23:59:59Z"))).to.throw(RangeError);
    });

    it("with values in values", () => {
      const value = der.sequence(
        der.boolean(true),
        der.enumerated(6),
        der.explicit(0, der.octetString(Buffer.of(1), Buffer.of(2))),
        der.bitString(Buffer.of(0xff)),
      );

      expect(hex(value)).to.equal("30100101ff0a0106a00404020102030200ff");
    });
  });

  describe("is read", () => {
    it("value by value, without a copy", () => {
      const bytes = Buffer.from("3009020101040412345678", "hex");

      const inside = new der.DerReader(bytes).inside(der.tags.sequence);

      expect(hex(inside.integer())).to.equal("01");
      expect(inside.isNext(der.tags.octetString)).to.equal(true);
      const octets = inside.contents(der.tags.octetString);
      expect(hex(octets)).to.equal("12345678");
      expect(octets.buffer).to.equal(bytes.buffer);
      expect(inside.isAtEnd).to.equal(true);
    });

    it("whole, with tag and length, and where it is cut out of something longer", () => {
      const bytes = Buffer.from("ffff0401aa0500ffff", "hex").subarray(2, 7);

      const reader = new der.DerReader(bytes);

      expect(hex(reader.value())).to.equal("0401aa");
      expect(hex(reader.value())).to.equal("0500");
      expect(() => reader.value()).to.throw(der.MalformedDer);
    });

    it("with lengths of up to four octets", () => {
      const long = der.octetString(Buffer.alloc(70_000));

      expect(new der.DerReader(long).contents(der.tags.octetString)).to.have.length(70_000);
    });

    it("only in the one form that DER has", () => {
      const refused: Readonly<Record<string, string>> = {
        "nothing at all": "",
        "a tag without length": "30",
        "an indefinite length": "30800201010000",
        "a long form for a short length": "308103020101",
        "a length with a zero before it": "3082008002" + "00".repeat(0x7f),
        "a length whose octets are missing": "3082",
        "a length of five octets": "30850000000003020101",
        "the length that is reserved": "30ff",
        "less than the length says": "3004020101",
        "far less than the length says": "3084ffffffff00",
        "another tag": "3103020101",
      };

      for (const [what, digits] of Object.entries(refused)) {
        expect(() => reading(digits).inside(der.tags.sequence), what).to.throw(der.MalformedDer);
      }
      expect(() => reading("1f810100").value(), "a tag of several octets").to.throw(der.MalformedDer);
    });

    it("with numbers and truth values in their shortest form only", () => {
      for (const digits of ["0200", "02020001", "0202ff80", "0202007f"]) {
        expect(() => reading(digits).integer(), digits).to.throw(der.MalformedDer);
      }
      for (const digits of ["020100", "0201ff", "02020080", "0202ff7f"]) {
        expect(hex(reading(digits).integer()), digits).to.equal(digits.slice(4));
      }
      for (const digits of ["0100", "010101", "0102ffff"]) {
        expect(() => reading(digits).boolean(), digits).to.throw(der.MalformedDer);
      }
      expect([reading("0101ff").boolean(), reading("010100").boolean()]).to.deep.equal([true, false]);
    });

    it("to its end, where somebody says that this is the end", () => {
      const reader = reading("05000500");
      reader.value();

      expect(() => reader.end()).to.throw(der.MalformedDer);
      reader.value();
      reader.end();
    });
  });
});
