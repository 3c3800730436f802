import { AsnConvert } from "@peculiar/asn1-schema";
import { Name as AsnName } from "@peculiar/asn1-x509";
import { expect } from "chai";
import fc from "fast-check";
import { MalformedDer, oid, sequence, tlv } from "../../../src/standards/der.ts";
import {
  type DistinguishedName,
  encodeName,
  nameFaults,
  readName,
} from "../../../src/standards/x509/distinguished-name.ts";

const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);

const noName = { commonName: "", organization: "", organizationalUnit: "", country: "", state: "", locality: "" };
const fullName: DistinguishedName = {
  commonName: "www.example.com",
  organization: "Bäckerei & Söhne",
  organizationalUnit: "東京",
  country: "JP",
  state: "Tōkyō",
  locality: "千代田区",
};

/** A Name of attributes by their types, each with a value of some tag. */
const nameOf = (...attributes: readonly (readonly [type: string, tag: number, value: Buffer])[]) =>
  sequence(...attributes.map(([type, tag, value]) => tlv(0x31, sequence(oid(type), tlv(tag, value)))));

describe(`A distinguished name (FUZZ_SEED=${seed})`, () => {
  it("is written with each attribute in a set of its own: country, state, locality, O, OU, CN", () => {
    const name = AsnConvert.parse(encodeName(fullName), AsnName);

    const written = name.map((set) => set.map(({ type, value }) => `${type} ${JSON.stringify(value)}`));
    expect(written).to.deep.equal([
      ['2.5.4.6 {"printableString":"JP"}'],
      ['2.5.4.8 {"utf8String":"Tōkyō"}'],
      ['2.5.4.7 {"utf8String":"千代田区"}'],
      ['2.5.4.10 {"utf8String":"Bäckerei & Söhne"}'],
      ['2.5.4.11 {"utf8String":"東京"}'],
      ['2.5.4.3 {"utf8String":"www.example.com"}'],
    ]);
  });

  it("has its country in capitals", () => {
    expect(readName(encodeName({ ...noName, country: "de" })).country).to.equal("DE");
  });

  it("without any attribute is an empty sequence", () => {
    expect(Buffer.from(encodeName(noName)).toString("hex")).to.equal("3000");
  });

  it("is read as it was written", () => {
    const text = fc.string({ unit: "binary", maxLength: 64 });
    const country = fc.constantFrom("", "DE", "US", "XK");
    const names = fc.record({
      commonName: text,
      organization: text,
      organizationalUnit: text,
      country,
      state: text,
      locality: text,
    });

    fc.assert(
      fc.property(names, (name) => {
        expect(readName(encodeName(name))).to.deep.equal(name);
      }),
      { seed },
    );
  });

  it("is read from all string types", () => {
    const values: Readonly<Record<string, readonly [number, Buffer]>> = {
      UTF8String: [0x0c, Buffer.from("Zoë")],
      TeletexString: [0x14, Buffer.from("Zoë", "latin1")],
      BMPString: [0x1e, Buffer.from("Zoë", "utf16le").swap16()],
      UniversalString: [0x1c, Buffer.from("0000005a0000006f000000eb", "hex")],
    };
    for (const [type, value] of Object.entries(values)) {
      expect(readName(nameOf(["2.5.4.3", ...value])).commonName, type).to.equal("Zoë");
    }
    for (const tag of [0x12, 0x13, 0x16, 0x1a]) {
      expect(readName(nameOf(["2.5.4.3", tag, Buffer.from("42")])).commonName).to.equal("42");
    }
  });

  it("is read past attributes and types that are unknown, the first value of each that is known", () => {
    const email = ["1.2.840.113549.1.9.1", 0x16, Buffer.from("a@example.com")] as const;
    const bits = ["2.5.4.3", 0x03, Buffer.of(0, 1)] as const;
    const commonName = (text: string) => ["2.5.4.3", 0x0c, Buffer.from(text)] as const;

    const name = readName(nameOf(email, bits, commonName("first"), commonName("second")));

    expect(name).to.deep.equal({ ...noName, commonName: "first" });
  });

  it("is read from a set of several attributes", () => {
    const attribute = (type: string, text: string) => sequence(oid(type), tlv(0x0c, Buffer.from(text)));

    const name = readName(sequence(tlv(0x31, attribute("2.5.4.10", "Org"), attribute("2.5.4.3", "name"))));

    expect(name).to.deep.equal({ ...noName, organization: "Org", commonName: "name" });
  });

  it("that is no Name is refused", () => {
    for (const hex of ["", "30", "3001", "300000", "30023100ff", "3000ff", "310030", "3003310130", "30800000"]) {
      expect(() => readName(Buffer.from(hex, "hex")), hex).to.throw(MalformedDer);
    }
  });

  it("of any bytes is read or refused as malformed", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.boolean(), (bytes, isWrapped) => {
        try {
          readName(isWrapped ? sequence(tlv(0x31, sequence(oid("2.5.4.3"), bytes))) : bytes);
        } catch (error) {
          expect(error).to.be.instanceOf(MalformedDer);
        }
      }),
      { seed, numRuns: 2000 },
    );
  });
});

describe("The faults of a name", () => {
  it("are none for one that fits", () => {
    expect(nameFaults(noName)).to.deep.equal([]);
    expect(nameFaults(fullName)).to.deep.equal([]);
  });

  it("are none for joiners, which Persian cannot do without", () => {
    expect(
      nameFaults({ ...noName, organization: "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645" }),
    ).to.deep.equal([]);
  });

  const cases: readonly (readonly [what: string, part: Partial<DistinguishedName>, fault: string])[] = [
    ["a common name of 65 characters", { commonName: "x".repeat(65) }, "common_name must have at most 64 characters"],
    ["an organization of 65", { organization: "x".repeat(65) }, "organization must have at most 64 characters"],
    ["a unit of 65", { organizationalUnit: "x".repeat(65) }, "organizational_unit must have at most 64 characters"],
    ["a state of 129", { state: "x".repeat(129) }, "state must have at most 128 characters"],
    ["a locality of 129", { locality: "x".repeat(129) }, "locality must have at most 128 characters"],
    ["NUL", { commonName: "a\0b" }, "common_name must not have control or invisible characters"],
    ["a line break", { organization: "a\nb" }, "organization must not have control or invisible characters"],
    ["a control character beyond ASCII", { state: "a\u0085b" }, "state must not have control or invisible characters"],
    ["a line separator", { locality: "a\u2028b" }, "locality must not have control or invisible characters"],
    [
      "a change of direction",
      { commonName: "moc.\u202eelpmaxe" },
      "common_name must not have control or invisible characters",
    ],
    ["a blank without width", { commonName: "a\u200bb" }, "common_name must not have control or invisible characters"],
    ["half of a pair", { commonName: "a\ud800b" }, "common_name must not have control or invisible characters"],
    ["a blank before", { commonName: " a" }, "common_name must not begin or end with blanks"],
    ["a blank after", { commonName: "a\u00a0" }, "common_name must not begin or end with blanks"],
    ["a country of three letters", { country: "DEU" }, "country must have two letters"],
    ["a country of other characters", { country: "D1" }, "country must have two letters"],
    ["a country in other letters", { country: "ÄÖ" }, "country must have two letters"],
  ];
  for (const [what, part, fault] of cases) {
    it(`tell of ${what}`, () => {
      const faults = nameFaults({ ...noName, ...part });

      expect(faults.map(({ path, message }) => `${path} ${message}`)).to.deep.equal([fault]);
    });
  }

  it("count characters, not the units that they take", () => {
    expect(nameFaults({ ...noName, commonName: "🔑".repeat(64) })).to.deep.equal([]);
    expect(nameFaults({ ...noName, commonName: "🔑".repeat(65) })).to.have.length(1);
  });

  it("tell of bytes that were no text", () => {
    const { commonName } = readName(nameOf(["2.5.4.3", 0x0c, Buffer.of(0xc3, 0x28)]));

    expect(nameFaults({ ...noName, commonName })).to.have.length(1);
  });
});
