import { expect } from "chai";
import { parseKeytab } from "../../src/standards/keytab.ts";
import { keytabWarnings } from "../../src/standards/keytab-warnings.ts";
import { type EntryParts, keytabWriter, readableFile, version2 } from "./keytab-files.ts";

const { file, entry } = keytabWriter(version2);
const warningsOf = (bytes: Buffer) => keytabWarnings(bytes, parseKeytab(bytes));
const kindsOf = (bytes: Buffer) => warningsOf(bytes).map(({ kind }) => kind);
const fileOf = (...entries: readonly EntryParts[]) => file(...entries.map(entry));
const kvnos = (...numbers: readonly number[]) => numbers.map((kvno8) => ({ kvno8 }));

describe("Warnings about a keytab", () => {
  it("are none where nothing is unusual", () => {
    expect(warningsOf(fileOf({ realm: "EXAMPLE.COM", components: ["HTTP", "web.example.com"] }))).to.deep.equal([]);
  });

  it("name the keys of the realm itself", () => {
    const cases: readonly (readonly string[])[] = [
      ["krbtgt", "R"],
      ["krbtgt", "OTHER.R"],
      ["K", "M"],
      ["kadmin", "admin"],
      ["kadmin", "changepw"],
      ["kadmin", "kdc.r", "and more"],
    ];
    for (const components of cases) {
      const [warning, ...more] = warningsOf(fileOf({ components }));

      expect(warning).to.include({ kind: "realm_key" });
      expect(warning?.message).to.include(`${components.join("/")}@R`);
      expect(more).to.deep.equal([]);
    }
  });

  it("leave alone principals that only begin like those of the realm", () => {
    for (const components of [
      ["krbtgt"],
      ["K"],
      ["kadmin"],
      ["K", "m"],
      ["M", "K"],
      ["krbtgts", "R"],
      ["host", "krbtgt"],
    ]) {
      expect(kindsOf(fileOf({ components })), components.join("/")).to.deep.equal([]);
    }
  });

  it("name a realm that is not in upper case, wherever in the file it is", () => {
    const [warning] = warningsOf(fileOf({ realm: "EXAMPLE.COM" }, { realm: "Example.COM" }));

    expect(warning).to.include({ kind: "realm_case" });
    expect(warning?.message).to.include("Example.COM");
    expect(kindsOf(fileOf({ realm: "A-1.ÄÖ" }))).to.deep.equal([]);
  });

  it("name a principal with more than two key versions", () => {
    const [warning] = warningsOf(fileOf(...kvnos(1, 2, 3)));

    expect(warning).to.include({ kind: "old_kvnos" });
    expect(warning?.message).to.include("a@R");
    expect(kindsOf(fileOf(...kvnos(1, 2, 2, 1)))).to.deep.equal([]);
    expect(kindsOf(fileOf({ kvno8: 1 }, { kvno8: 2 }, { kvno8: 3, components: ["b"] }))).to.deep.equal([]);
  });

  it("name two entries that say the same with different keys", () => {
    const one = { key: Buffer.alloc(16, 1) };
    const other = { key: Buffer.alloc(16, 2) };

    const [warning] = warningsOf(fileOf(one, one, other));

    expect(warning).to.include({ kind: "conflicting_keys" });
    expect(warning?.message).to.include("a@R kvno 1 aes256-cts-hmac-sha1-96");
    expect(kindsOf(fileOf(one, one))).to.deep.equal([]);
    expect(kindsOf(fileOf(one, { ...other, kvno8: 2 }))).to.deep.equal([]);
    expect(kindsOf(fileOf(one, { ...other, enctype: 17 }))).to.deep.equal([]);
    expect(kindsOf(fileOf(one, { ...other, components: ["b"] }))).to.deep.equal([]);
    expect(kindsOf(fileOf(one, { ...other, realm: "S" }))).to.deep.equal([]);
  });

  it("come once for each kind, whatever number of principals they are about", () => {
    const names = ["a", "b", "c", "d", "e"];
    const bytes = fileOf(...names.map((name) => ({ realm: "r", components: ["krbtgt", name] })));

    const [realmKey, realmCase, ...more] = warningsOf(bytes);

    expect(realmKey?.message).to.include("krbtgt/a@r, krbtgt/b@r, krbtgt/c@r and 2 more");
    expect(realmCase).to.include({ kind: "realm_case" });
    expect(more).to.deep.equal([]);
  });

  it("say of real files what is known of them", () => {
    expect(kindsOf(readableFile("mitlib-name-types").bytes)).to.deep.equal(["realm_key"]);
    expect(kindsOf(readableFile("mit-lowercase-realm").bytes)).to.deep.equal(["realm_case"]);
    expect(kindsOf(readableFile("mit-rollover-ascending").bytes)).to.deep.equal(["old_kvnos"]);
    expect(kindsOf(readableFile("mit-host-all-aes").bytes)).to.deep.equal([]);
  });

  it("hold no byte of a key", () => {
    const key = Buffer.from("a key that anybody could read");
    const bytes = fileOf(
      { key, realm: "r", components: ["K", "M"] },
      { key: Buffer.alloc(9), realm: "r", components: ["K", "M"] },
    );

    const text = JSON.stringify(warningsOf(bytes));

    expect(text).to.include("conflicting_keys");
    expect(text).not.to.include("a key that");
  });
});
