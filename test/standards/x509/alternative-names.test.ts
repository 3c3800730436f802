import { isIP, SocketAddress } from "node:net";
import { AsnConvert } from "@peculiar/asn1-schema";
import { GeneralName, GeneralNames, OtherName } from "@peculiar/asn1-x509";
import { expect } from "chai";
import fc from "fast-check";
import { MalformedDer, sequence, tlv } from "../../../src/standards/der.ts";
import {
  type AlternativeNames,
  asAlternativeName,
  canonicalNames,
  encodeAlternativeNames,
  nameKinds,
  readAlternativeNames,
} from "../../../src/standards/x509/alternative-names.ts";

const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);

const noNames: AlternativeNames = { dns: [], ip: [], email: [], uri: [] };

/** The canonical form of a name; undefined where it has none. */
function canonical(kind: keyof AlternativeNames, text: string): string | undefined {
  const { names, faults } = canonicalNames({ ...noNames, [kind]: [text] });
  expect(faults.map(({ path }) => path)).to.deep.equal(names[kind].length === 0 ? [`${kind}[0]`] : []);
  return names[kind][0];
}

const long = (length: number) => `${"a".repeat(63)}.`.repeat(4).slice(0, length);

const accepted: Readonly<Record<keyof AlternativeNames, Readonly<Record<string, string>>>> = {
  dns: {
    "example.com": "example.com",
    "WWW.Example.COM": "www.example.com",
    localhost: "localhost",
    "*.example.com": "*.example.com",
    "*.BÜCHER.example": "*.xn--bcher-kva.example",
    "bücher.example": "xn--bcher-kva.example",
    "faß.example": "xn--fa-hia.example",
    "例え。テスト": "xn--r8jz45g.xn--zckzah",
    "xn--bcher-kva.example": "xn--bcher-kva.example",
    "3com.com": "3com.com",
    "1.2.3.4.example": "1.2.3.4.example",
    "a--b.example": "a--b.example",
    [`${"a".repeat(63)}.example`]: `${"a".repeat(63)}.example`,
    [long(253)]: long(253),
  },
  ip: {
    "10.0.0.1": "10.0.0.1",
    "255.255.255.255": "255.255.255.255",
    "::": "::",
    "::1": "::1",
    "2001:DB8:0:0:0:0:0:1": "2001:db8::1",
    "2001:db8::0001:0:0:1": "2001:db8::1:0:0:1",
    "2001:db8:0:1:1:1:1:1": "2001:db8:0:1:1:1:1:1",
    "1:0:0:2:0:0:0:3": "1:0:0:2::3",
    "64:ff9b::192.0.2.33": "64:ff9b::c000:221",
    "fe80::": "fe80::",
  },
  email: {
    "user@example.com": "user@example.com",
    "First.Last+tag@EXAMPLE.com": "First.Last+tag@example.com",
    "o'brien@bücher.example": "o'brien@xn--bcher-kva.example",
    "root@localhost": "root@localhost",
  },
  uri: {
    "https://example.com": "https://example.com",
    "HTTPS://EXAMPLE.com:8443/Path?q=1#Top": "https://example.com:8443/Path?q=1#Top",
    "spiffe://cluster.local/ns/default/sa/web": "spiffe://cluster.local/ns/default/sa/web",
    "http://10.0.0.1/": "http://10.0.0.1/",
    "http://[2001:DB8::0:1]:80/": "http://[2001:db8::1]:80/",
    "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6": "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "https://example.com/%C3%BC": "https://example.com/%C3%BC",
  },
};

const refused: Readonly<Record<keyof AlternativeNames, readonly string[]>> = {
  dns: [
    ["", ".", "example.com.", ".example.com", "a..b", "-a.example", "a-.example", "a_b.example", "a b.example"],
    ["*", "*.com", "*.", "a*.example.com", "*a.example.com", "a.*.example.com", "*.*.example.com", "**.example.com"],
    ["10.0.0.1", "1.2.3", "example.0x7f", "example.1", "::1", "１２７.0.0.1", "0x7f000001"],
    ["example.com\0.evil.example", "example.com\n", " example.com", "example.com/", "user@example.com", "a:80"],
    ["bücher.example/evil", "bücher%2eexample", "bücher.example\\evil", "ü@example.com", "ü:80", "ü?"],
    ["xn--a.example", "xn--.example", "xn--zzzzzz99999.example", "\ud800.example", "\u202e.example"],
    [`${"a".repeat(64)}.example`, `b${long(253)}`, `*.${long(252)}`, "ü".repeat(20_000)],
  ].flat(),
  ip: [
    ["", "10.0.0", "10.0.0.256", "010.0.0.1", "10.0.0.1/8", "0x0a.0.0.1", "10.0.0.1 ", "10.0.0.1\0", "1", "10"],
    ["1::2::3", ":::", "fe80::1%eth0", "[::1]", "12345::", "::1/128", "::ffff:10.0.0.1", "::FFFF:A00:1"],
  ].flat(),
  email: [
    [
      "",
      "user",
      "@example.com",
      "user@",
      "a@b@example.com",
      "user@example.com.",
      "user@10.0.0.1",
      "user@[10.0.0.1]",
    ].flat(),
    [".user@example.com", "user.@example.com", "a..b@example.com", '"a b"@example.com', "a b@example.com"],
    ["üser@example.com", "user@exa_mple.com", "user@*.example.com", "Name <user@example.com>", "a@b\n"],
    [`${"a".repeat(65)}@example.com`, `${"a".repeat(64)}@${long(200)}`],
  ].flat(),
  uri: [
    [
      "",
      "example.com",
      "/path",
      "//example.com/",
      "https:",
      "https://",
      "https:///path",
      "http:example.com",
      "1a:b",
    ].flat(),
    ["https://user@example.com/", "https://user:secret@example.com/", "https://example.com:65536/", "https://:80/"],
    ["https://*.example.com/", "https://exa_mple.com/", "https://example.com./", "https://[10.0.0.1]/", "a://[::1"],
    ["https://bücher.example/", "https://example.com/ü", "https://example.com/a b", "https://example.com/%zz", "a:"],
    [
      "https://example.com/\n",
      "https://example.com\0/",
      "https://[::ffff:10.0.0.1]/",
      "https://example.com\\@evil/",
    ].flat(),
    ["file:///etc/passwd", `https://example.com/${"a".repeat(2048)}`],
  ].flat(),
};

describe("An alternative name", () => {
  for (const kind of nameKinds) {
    for (const [text, expected] of Object.entries(accepted[kind])) {
      it(`of kind ${kind} has a canonical form: ${text.slice(0, 60)}`, () => {
        expect(canonical(kind, text)).to.equal(expected);
        expect(canonical(kind, expected)).to.equal(expected);
      });
    }
    for (const text of refused[kind]) {
      it(`of kind ${kind} is none: ${JSON.stringify(text).slice(0, 60)}`, () => {
        expect(canonical(kind, text)).to.equal(undefined);
      });
    }
  }

  it("is there once, and a wrong one is told by its place", () => {
    const { names, faults } = canonicalNames({
      dns: ["b.example", "A.example", "a_b", "a.EXAMPLE", "b.example"],
      ip: ["::1", "0:0::1", "x"],
      email: ["a@x.example", "A@x.example", "a@X.example"],
      uri: ["HTTP://a.example/", "http://a.example/"],
    });

    expect(names).to.deep.equal({
      dns: ["b.example", "a.example"],
      ip: ["::1"],
      email: ["a@x.example", "A@x.example"],
      uri: ["http://a.example/"],
    });
    expect(faults.map(({ path }) => path)).to.deep.equal(["dns[2]", "ip[2]"]);
  });
});

describe("A common name", () => {
  const cases: Readonly<Record<string, Partial<AlternativeNames> | undefined>> = {
    "www.example.com": { dns: ["www.example.com"] },
    "WWW.Example.com": { dns: ["www.example.com"] },
    "*.example.com": { dns: ["*.example.com"] },
    "bücher.example": { dns: ["xn--bcher-kva.example"] },
    "10.0.0.1": { ip: ["10.0.0.1"] },
    "2001:DB8::1": { ip: ["2001:db8::1"] },
    web: undefined,
    "Alice Example": undefined,
    "alice@example.com": undefined,
    "https://example.com": undefined,
    "": undefined,
  };
  for (const [commonName, expected] of Object.entries(cases)) {
    it(`"${commonName}" is ${expected === undefined ? "no alternative name" : `${Object.keys(expected)[0]}`}`, () => {
      expect(asAlternativeName(commonName)).to.deep.equal(expected);
    });
  }
});

describe(`Alternative names in DER (FUZZ_SEED=${seed})`, () => {
  const names: AlternativeNames = {
    dns: ["www.example.com", "*.example.com"],
    ip: ["10.0.0.1", "2001:db8::1"],
    email: ["user@example.com"],
    uri: ["https://example.com/path"],
  };

  it("are what other software reads", () => {
    const read = AsnConvert.parse(encodeAlternativeNames(names), GeneralNames);

    expect(read.map((name) => JSON.parse(JSON.stringify(name)) as object)).to.deep.equal([
      { dNSName: "www.example.com" },
      { dNSName: "*.example.com" },
      { iPAddress: "10.0.0.1" },
      { iPAddress: "2001:db8::1" },
      { rfc822Name: "user@example.com" },
      { uniformResourceIdentifier: "https://example.com/path" },
    ]);
  });

  it("are read as they were written, and are still canonical", () => {
    const label = fc.stringMatching(/^[a-z]([a-z0-9-]{0,10}[a-z0-9])?$/).filter((text) => !/^..--/.test(text));
    const host = fc.array(label, { minLength: 2, maxLength: 5 }).map((labels) => labels.join("."));
    const address = fc.oneof(
      fc.ipV4(),
      fc.uint8Array({ minLength: 16, maxLength: 16 }).map((octets) => Buffer.from(octets).toString("hex")),
    );
    const lists = fc.record({
      dns: fc.uniqueArray(fc.tuple(fc.boolean(), host).map(([isStar, name]) => (isStar ? `*.${name}` : name))),
      ip: fc.uniqueArray(address.map((text) => (text.includes(".") ? text : (text.match(/.{4}/g) ?? []).join(":")))),
      email: fc.uniqueArray(fc.tuple(label, host).map(([local, name]) => `${local}@${name}`)),
      uri: fc.uniqueArray(
        fc.tuple(fc.constantFrom("https", "spiffe"), host).map(([scheme, name]) => `${scheme}://${name}`),
      ),
    });

    fc.assert(
      fc.property(lists, (given) => {
        const { names, faults } = canonicalNames(given);
        expect(faults).to.deep.equal([]);
        expect({ ...names, ip: [] }).to.deep.equal({ ...given, ip: [] });
        expect(readAlternativeNames(encodeAlternativeNames(names))).to.deep.equal({ names, others: 0 });
        expect(canonicalNames(names).names).to.deep.equal(names);
        const family = (text: string) => (isIP(text) === 6 ? "ipv6" : "ipv4");
        const same = (text: string) => new SocketAddress({ address: text, family: family(text) }).address;
        expect(names.ip.map(same)).to.deep.equal([...new Set(given.ip.map(same))]);
      }),
      { seed },
    );
  });

  it("are read past kinds that are unknown here, which are counted", () => {
    const der = AsnConvert.serialize(
      new GeneralNames([
        new GeneralName({ otherName: new OtherName({ typeId: "1.2.3", value: new Uint8Array([5, 0]).buffer }) }),
        new GeneralName({ dNSName: "a.example" }),
        new GeneralName({ registeredID: "1.2.3.4" }),
      ]),
    );

    expect(readAlternativeNames(new Uint8Array(der))).to.deep.equal({
      names: { ...noNames, dns: ["a.example"] },
      others: 2,
    });
  });

  const malformed: Readonly<Record<string, Uint8Array>> = {
    "nothing at all": Buffer.of(),
    "another type": Buffer.of(0x31, 0),
    "more than a list": Buffer.of(0x30, 0, 0),
    "a list that is cut off": Buffer.of(0x30, 3, 0x82, 5, 0x61),
    "an indefinite length": Buffer.of(0x30, 0x80, 0, 0),
    "an address of five octets": sequence(tlv(0x87, Buffer.of(1, 2, 3, 4, 5))),
    "an address with a mask": sequence(tlv(0x87, Buffer.alloc(8))),
    "a name beyond ASCII": sequence(tlv(0x82, Buffer.from("bücher.example", "latin1"))),
  };
  for (const [what, der] of Object.entries(malformed)) {
    it(`are refused as malformed: ${what}`, () => {
      expect(() => readAlternativeNames(der)).to.throw(MalformedDer);
    });
  }

  it("of any bytes are read or refused as malformed", () => {
    const value = fc
      .tuple(fc.constantFrom(0x81, 0x82, 0x86, 0x87, 0xa0, 0xa4, 0x88), fc.uint8Array({ maxLength: 20 }))
      .map(([tag, contents]) => tlv(tag, contents));
    const list = fc.array(fc.oneof(value, fc.uint8Array({ maxLength: 4 }))).map((values) => sequence(...values));

    fc.assert(
      fc.property(fc.oneof(list, fc.uint8Array({ maxLength: 40 })), (der) => {
        try {
          canonicalNames(readAlternativeNames(der).names);
        } catch (error) {
          expect(error).to.be.instanceOf(MalformedDer);
        }
      }),
      { seed, numRuns: 2000 },
    );
  });
});
