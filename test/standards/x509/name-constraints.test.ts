import { AsnConvert } from "@peculiar/asn1-schema";
import { NameConstraints as AsnNameConstraints } from "@peculiar/asn1-x509";
import { expect } from "chai";
import type { AlternativeNames } from "../../../src/standards/x509/alternative-names.ts";
import {
  canonicalConstraints,
  encodeNameConstraints,
  forbiddenNames,
  type NameConstraints,
  type NameRanges,
} from "../../../src/standards/x509/name-constraints.ts";

const none: NameRanges = { dns: [], ip: [], email: [], uri: [] };
const noName = { commonName: "", organization: "", organizationalUnit: "", country: "", state: "", locality: "" };

const permitting = (ranges: Partial<NameRanges>): NameConstraints => ({
  permitted: { ...none, ...ranges },
  excluded: none,
});
const excluding = (ranges: Partial<NameRanges>): NameConstraints => ({
  permitted: none,
  excluded: { ...none, ...ranges },
});

/** The paths of what is forbidden. */
function forbidden(
  constraints: readonly NameConstraints[],
  names: Partial<AlternativeNames>,
  commonName = "",
): string[] {
  return forbiddenNames(constraints, { ...noName, commonName }, { ...none, ...names }).map(({ path }) => path);
}

describe("Name constraints", () => {
  it("have a canonical form", () => {
    const { constraints, faults } = canonicalConstraints({
      permitted: {
        dns: ["Example.COM", "bücher.example", "example.com"],
        ip: ["10.0.0.0/8", "2001:DB8:0::/32", "192.0.2.1", "0.0.0.0/0", "::/0"],
        email: ["User@Example.com", "Example.com", ".Example.com"],
        uri: ["Example.com", ".Example.com"],
      },
      excluded: none,
    });

    expect(faults).to.deep.equal([]);
    expect(constraints.permitted).to.deep.equal({
      dns: ["example.com", "xn--bcher-kva.example"],
      ip: ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1/32", "0.0.0.0/0", "::/0"],
      email: ["User@example.com", "example.com", ".example.com"],
      uri: ["example.com", ".example.com"],
    });
  });

  const wrong: Readonly<Record<keyof NameRanges, readonly string[]>> = {
    dns: ["", ".example.com", "*.example.com", "10.0.0.0", "a_b.example", "example.com.", "https://example.com"],
    ip: [
      "",
      "10.0.0.0/33",
      "10.0.0.1/8",
      "2001:db8::1/32",
      "::/129",
      "10.0.0.0/08",
      "10.0.0.0/",
      "10.0.0.0/8/8",
      "10/8",
    ],
    email: ["", "@example.com", "..example.com", "*@example.com", "user@.example.com"],
    uri: ["", "https://example.com", "..example.com", "user@example.com", "*.example.com"],
  };
  for (const [kind, ranges] of Object.entries(wrong)) {
    it(`of kind ${kind} are refused by their places when they are none`, () => {
      const { faults } = canonicalConstraints({
        permitted: { ...none, [kind]: ranges },
        excluded: { ...none, [kind]: ranges },
      });

      const places = ranges.map((_, index) => `${kind}[${index}]`);
      expect(faults.map(({ path }) => path)).to.deep.equal([
        ...places.map((place) => `permitted.${place}`),
        ...places.map((place) => `excluded.${place}`),
      ]);
    });
  }

  it("are written as other software reads them", () => {
    const der = encodeNameConstraints({
      permitted: { dns: ["example.com"], ip: ["10.0.0.0/8", "2001:db8::/33"], email: [], uri: [] },
      excluded: { dns: [], ip: [], email: [".example.com"], uri: ["example.com"] },
    });

    const read = AsnConvert.parse(der as Uint8Array, AsnNameConstraints);
    const bases = (trees?: { base: object }[]) => trees?.map(({ base }) => JSON.parse(JSON.stringify(base)) as object);
    expect(bases(read.permittedSubtrees)).to.deep.equal([
      { dNSName: "example.com" },
      { iPAddress: "10.0.0.0/8" },
      { iPAddress: "2001:db8::/33" },
    ]);
    expect(bases(read.excludedSubtrees)).to.deep.equal([
      { rfc822Name: ".example.com" },
      { uniformResourceIdentifier: "example.com" },
    ]);
  });

  it("that list nothing are not written", () => {
    expect(encodeNameConstraints({ permitted: none, excluded: none })).to.equal(undefined);
  });
});

/** What stands within a range, and what does not. */
const ranges: readonly (readonly [keyof NameRanges, range: string, within: string[], outside: string[]])[] = [
  [
    "dns",
    "example.com",
    ["example.com", "www.example.com", "a.b.example.com", "*.example.com", "*.www.example.com"],
    ["example.org", "badexample.com", "com", "example.com.evil.example", "*.com.example"],
  ],
  ["dns", "host.example.com", ["host.example.com", "a.host.example.com"], ["example.com", "other.example.com"]],
  ["ip", "10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["11.0.0.0", "9.255.255.255", "::a00:0", "a00::"]],
  ["ip", "10.1.128.0/17", ["10.1.128.0", "10.1.255.255"], ["10.1.127.255", "10.2.128.0"]],
  ["ip", "0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::"]],
  ["ip", "2001:db8::/33", ["2001:db8::", "2001:db8:7fff::1"], ["2001:db8:8000::", "10.0.0.1"]],
  ["ip", "192.0.2.1/32", ["192.0.2.1"], ["192.0.2.0"]],
  [
    "email",
    "user@example.com",
    ["user@example.com"],
    ["User@example.com", "other@example.com", "user@www.example.com"],
  ],
  ["email", "example.com", ["a@example.com", "b@example.com"], ["a@www.example.com", "a@badexample.com"]],
  ["email", ".example.com", ["a@www.example.com", "a@b.c.example.com"], ["a@example.com", "a@badexample.com"]],
  ["uri", "example.com", ["https://example.com/", "http://example.com:80/x"], ["https://www.example.com/", "urn:x:y"]],
  [
    "uri",
    ".example.com",
    ["https://www.example.com", "spiffe://a.b.example.com/c"],
    ["https://example.com/", "https://evil.example/.example.com", "https://10.0.0.1/", "http://[2001:db8::1]/"],
  ],
];

describe("The names that are forbidden", () => {
  for (const [kind, range, within, outside] of ranges) {
    it(`are those outside of what is permitted: ${kind} ${range}`, () => {
      const names = { [kind]: [...within, ...outside] };

      const expected = outside.map((_, index) => `${kind}[${within.length + index}]`);
      expect(forbidden([permitting({ [kind]: [range] })], names)).to.deep.equal(expected);
    });

    it(`are those within what is excluded: ${kind} ${range}`, () => {
      // A URI that has no host name can be held against no range.
      const isUnclear = (name: string) => kind === "uri" && /^urn:|\d\.\d|\[/.test(name);
      const names = [...within, ...outside.filter((name) => !isUnclear(name))];

      const expected = within.map((_, index) => `${kind}[${index}]`);
      expect(forbidden([excluding({ [kind]: [range] })], { [kind]: names })).to.deep.equal(expected);
    });
  }

  it("are URIs without a host name as soon as anything is said of URIs", () => {
    const uri = ["urn:uuid:0", "https://10.0.0.1/", "http://[::1]/"];

    expect(forbidden([excluding({ uri: ["example.com"] })], { uri })).to.have.length(3);
    expect(forbidden([excluding({ dns: ["example.com"] })], { uri })).to.have.length(0);
  });

  it("are stars that may stand for something excluded", () => {
    const constraints = excluding({ dns: ["secret.example.com"] });
    const dns = [
      "*.example.com",
      "*.secret.example.com",
      "*.other.example.com",
      "*.w.secret.example.com",
      "example.com",
    ];

    expect(forbidden([constraints], { dns })).to.deep.equal(["dns[0]", "dns[1]", "dns[3]"]);
  });

  it("are none of a kind that nothing is said of", () => {
    const names = { dns: ["a.example"], email: ["a@a.example"], uri: ["https://a.example/"] };

    expect(forbidden([permitting({ ip: ["10.0.0.0/8"] })], names)).to.deep.equal([]);
    expect(forbidden([], names, "a.example")).to.deep.equal([]);
  });

  it("are forbidden by exclusion, permitted or not", () => {
    const constraints = {
      permitted: { ...none, dns: ["example.com"] },
      excluded: { ...none, dns: ["a.example.com"] },
    };

    expect(forbidden([constraints], { dns: ["example.com", "x.a.example.com", "b.example.com"] })).to.deep.equal([
      "dns[1]",
    ]);
  });

  it("are those that any authority of the chain does not allow", () => {
    const chain = [permitting({ dns: ["example.com"] }), permitting({ dns: ["b.example.com", "example.org"] })];

    const dns = ["b.example.com", "example.com", "example.org"];
    expect(forbidden(chain, { dns })).to.deep.equal(["dns[1]", "dns[2]"]);
  });

  it("are found at once among the longest lists of names, ranges and authorities", () => {
    const hundred = (item: (index: number) => string) => Array.from({ length: 100 }, (_, index) => item(index));
    const labels = "a.".repeat(100);
    const names = {
      dns: hundred((index) => `${labels}h${index}.example.com`),
      ip: hundred((index) => `2001:db8::${index}`),
      email: hundred((index) => `u${index}@${labels}example.com`),
      uri: hundred((index) => `https://h${index}.example.com/${"a".repeat(2000)}`),
    };
    const constraints = excluding({
      dns: hundred((index) => `${labels}h${index}.example.org`),
      ip: hundred((index) => `2001:db9:${index}::/48`),
      email: hundred((index) => `.h${index}.example.org`),
      uri: hundred((index) => `.h${index}.example.org`),
    });
    const chain = Array.from({ length: 17 }, () => constraints);
    const start = performance.now();

    expect(forbidden(chain, names)).to.deep.equal([]);
    expect(performance.now() - start).to.be.below(1500);
  });

  const commonNames: Readonly<Record<string, boolean>> = {
    "www.example.com": true,
    "WWW.Example.com": true,
    "www.example.com.": true,
    "10.1.2.3": true,
    Alice: true,
    "Alice Example": true,
    "Dr. Who": true,
    "evil.example": false,
    "EVIL.example.": false,
    "*.evil.example": false,
    "under_score.evil.example": false,
    "w*.evil.example": false,
    "bücher.example": false,
    "11.0.0.1": false,
    "::1": false,
  };
  for (const [commonName, isAllowed] of Object.entries(commonNames)) {
    it(`${isAllowed ? "are not" : "are"} the common name "${commonName}"`, () => {
      const constraints = permitting({ dns: ["example.com"], ip: ["10.0.0.0/8"] });

      expect(forbidden([constraints], {}, commonName)).to.deep.equal(isAllowed ? [] : ["common_name"]);
    });
  }
});
