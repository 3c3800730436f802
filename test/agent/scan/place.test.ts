import { expect } from "chai";
import { fits, isWithin, placeOf } from "../../../src/agent/scan/place.ts";

describe("a place to look for keytabs in", () => {
  const places: [text: string, root: string, base: string, pattern: string[]][] = [
    ["/etc/krb5.keytab", "/etc/krb5.keytab", "/etc/krb5.keytab", []],
    ["/opt/../srv/app/", "/srv/app", "/srv/app", []],
    ["/etc/*.keytab", "/etc/*.keytab", "/etc", ["*.keytab"]],
    ["/*/x", "/*/x", "/", ["*", "x"]],
    ["/a/u?er/b/c*/d", "/a/u?er/b/c*/d", "/a", ["u?er", "b", "c*", "d"]],
    ["/a/**/**/b", "/a/**/**/b", "/a", ["**", "b"]],
    ["/a/b*/**", "/a/b*/**", "/a", ["b*"]],
    ["/a/**", "/a/**", "/a", []],
  ];
  for (const [text, root, base, pattern] of places) {
    it(`${text} begins at ${base}`, () => {
      expect(placeOf(text)).to.deep.equal({ root, base, pattern });
    });
  }

  it("is relative to where the program runs unless it begins with a slash", () => {
    expect(placeOf("x").root).to.equal(`${process.cwd()}/x`);
  });

  const names: [name: string, pattern: string, fits: boolean][] = [
    ["krb5.keytab", "krb5.keytab", true],
    ["krb5.keytab", "*.keytab", true],
    [".keytab", "*.keytab", true],
    ["krb5.keytab.bak", "*.keytab", false],
    ["krb5.keytab.bak", "*keytab*", true],
    ["abcabd", "*ab?", true],
    ["abcab", "*ab?", false],
    ["a", "?", true],
    ["", "?", false],
    ["", "*", true],
    ["a", "a**", true],
    ["xay", "*a*b*", false],
    ["a.b", "a[.]b", false],
    ["A", "a", false],
  ];
  for (const [name, pattern, expected] of names) {
    it(`${JSON.stringify(name)} ${expected ? "fits" : "does not fit"} ${pattern}`, () => {
      expect(fits(name, pattern)).to.equal(expected);
    });
  }

  it("can be compared with any name in little time, whatever the two are", function () {
    this.timeout(2000);

    expect(fits("a".repeat(250), `${"*a".repeat(60)}b`)).to.equal(false);
  });

  it("holds what is below it, and not what only begins like it", () => {
    const within = ["/a/b", "/a/b/c", "/a/bc", "/a", "/"].map((path) => isWithin(path, "/a/b"));

    expect(within).to.deep.equal([true, true, false, false, false]);
    expect(isWithin("/a", "/")).to.equal(true);
  });
});
