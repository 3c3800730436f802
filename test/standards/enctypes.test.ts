import { expect } from "chai";
import { enctypeFamily, enctypeName, enctypeNumber, enctypeStrength, enctypes } from "../../src/standards/enctypes.ts";

const known = [
  [20, "aes256-cts-hmac-sha384-192", ["aes256-sha2"], "RFC 8009", "strong"],
  [19, "aes128-cts-hmac-sha256-128", ["aes128-sha2"], "RFC 8009", "strong"],
  [18, "aes256-cts-hmac-sha1-96", ["aes256-cts", "aes256-sha1"], "RFC 3962", "strong"],
  [17, "aes128-cts-hmac-sha1-96", ["aes128-cts", "aes128-sha1"], "RFC 3962", "strong"],
  [26, "camellia256-cts-cmac", ["camellia256-cts"], "RFC 6803", "strong"],
  [25, "camellia128-cts-cmac", ["camellia128-cts"], "RFC 6803", "strong"],
  [23, "arcfour-hmac", ["rc4-hmac", "arcfour-hmac-md5"], "RFC 4757, RFC 8429", "weak"],
  [16, "des3-cbc-sha1", ["des3-hmac-sha1", "des3-cbc-sha1-kd"], "RFC 3961, RFC 8429", "weak"],
  [24, "arcfour-hmac-exp", ["rc4-hmac-exp", "arcfour-hmac-md5-exp"], "RFC 4757, RFC 6649", "broken"],
  [3, "des-cbc-md5", ["des"], "RFC 3961, RFC 6649", "broken"],
  [2, "des-cbc-md4", [], "RFC 3961, RFC 6649", "broken"],
  [1, "des-cbc-crc", [], "RFC 3961, RFC 6649", "broken"],
] as const;

describe("The encryption types", () => {
  for (const [number, name, aliases, rfcs, strength] of known) {
    it(`have ${number} as ${name}, ${strength}, of ${rfcs}`, () => {
      const enctype = enctypes.find((enctype) => enctype.number === number);

      expect(enctypeName(number)).to.equal(name);
      expect(enctypeStrength(number)).to.equal(strength);
      const cited = [enctype?.rfc, enctype?.deprecatedBy].filter((rfc) => rfc !== undefined);
      expect(cited.map((rfc) => `RFC ${rfc}`).join(", ")).to.equal(rfcs);
      for (const text of [name, ...aliases, `etype-${number}`]) expect(enctypeNumber(text), text).to.equal(number);
    });
  }

  it("have no other names, and none twice", () => {
    const names = enctypes.flatMap(({ name, aliases }) => [name, ...aliases]);

    expect(enctypes.map(({ number }) => number)).to.have.members(known.map(([number]) => number));
    expect(names).to.have.members(known.flatMap(([, name, aliases]) => [name, ...aliases]));
    expect(new Set(names).size).to.equal(names.length);
  });

  it("are named by their number where they have no name, and of unknown strength", () => {
    for (const [number, name] of [
      [0, "etype-0"],
      [7, "etype-7"],
      [999, "etype-999"],
      [-133, "etype--133"],
      [32767, "etype-32767"],
      [-32768, "etype--32768"],
    ] as const) {
      expect(enctypeName(number)).to.equal(name);
      expect(enctypeNumber(name), name).to.equal(number);
      expect(enctypeStrength(number), name).to.equal("unknown");
    }
  });

  it("are understood in any case, with blanks around, and as klist prints them", () => {
    expect(enctypeNumber(" AES256-CTS\n")).to.equal(18);
    expect(enctypeNumber("DEPRECATED:arcfour-hmac")).to.equal(23);
    expect(enctypeNumber("DEPRECATED:etype 999")).to.equal(999);
  });

  it("are not what else a person may write, families of krb5.conf among it", () => {
    const texts = ["aes", "rc4", "des3", "camellia", "DEFAULT", "-rc4", "", "18", "aes256", "constructor", "__proto__"];
    const numbers = ["etype-32768", "etype--32769", "etype-1e3", "etype-", "etype-0x12", "etype-1.5", "etype-18 x"];

    for (const text of [...texts, ...numbers]) expect(enctypeNumber(text), text).to.equal(undefined);
  });

  it("are members of the families of krb5.conf, which are no types", () => {
    const aes = [18, 17, 20, 19].map(enctypeName);
    const camellia = [26, 25].map(enctypeName);

    expect(enctypeFamily("aes")).to.deep.equal(aes);
    expect(enctypeFamily(" AES\n")).to.deep.equal(aes);
    expect(enctypeFamily("camellia")).to.deep.equal(camellia);
    expect(enctypeFamily("-rc4")).to.deep.equal(["arcfour-hmac"]);
    expect(enctypeFamily("+des3")).to.deep.equal(["des3-cbc-sha1"]);
    expect(enctypeFamily("DEFAULT")).to.have.members([...aes, ...camellia, "des3-cbc-sha1", "arcfour-hmac"]);
    for (const { name, aliases } of enctypes) {
      for (const each of [name, ...aliases]) expect(enctypeFamily(each), each).to.equal(undefined);
    }
    for (const text of ["", "-", "--rc4", "aes256", "constructor"]) {
      expect(enctypeFamily(text), text).to.equal(undefined);
    }
  });
});
