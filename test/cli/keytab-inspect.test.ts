import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { keysOf, newKeytab } from "../harness/keytabs.ts";
import { useServer } from "../harness/server.ts";
import { damaged, readable, readableFile } from "../standards/keytab-files.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast keytab inspect", function () {
  // Every command is a process of its own.
  this.timeout(60_000);

  describe("without a server", () => {
    const cli = useHoldfast(() => ({}));

    /** The lines of klist, without the file, the heads and the keys, and with times in UTC as they are written elsewhere. */
    const asPrinted = (klist: readonly string[]) =>
      klist
        .slice(3)
        .map((line) => line.replace(/\s+\(0x[0-9a-f]*\)$/, ""))
        .map((line) => line.replace(/(\d\d)\/(\d\d)\/(\d\d) (\S+)/, "20$3-$1-$2T$4Z"))
        .map((line) => line.replace("etype ", "etype-"));

    it("prints the entries as klist does", async () => {
      const shown = ["adcli-update", "hand-unknown-enctype-999", "v1-le-two-entries", "mit-special-chars"];
      const files = readable.filter(({ name }) => shown.includes(name));

      for (const { path, name, description } of files) {
        const [file, heads, line, ...entries] = (await cli().print(`keytab inspect ${path}`)).trimEnd().split("\n");
        expect([file, heads?.split(/ +/), line?.slice(0, 5)]).to.deep.equal([
          `Keytab name: FILE:${path}`,
          ["KVNO", "Timestamp", "Principal"],
          "---- ",
        ]);
        const printed = entries.filter((entry) => !entry.startsWith("warning: "));
        expect(printed, name).to.deep.equal(asPrinted(description.klist_output ?? []));
      }
      expect(files.length).to.be.greaterThan(2);
    });

    it("prints no key, in whatever form", async () => {
      const bytes = newKeytab({ enctypes: [18, 17, 23] });
      writeFileSync(join(cli().home, "a.keytab"), bytes);

      const outputs = await Promise.all([
        cli().print("keytab inspect a.keytab"),
        cli().print("keytab inspect a.keytab --json"),
        cli()
          .run("keytab inspect -", { input: bytes.subarray(0, -1) })
          .then(({ stderr }) => stderr),
      ]);

      for (const key of keysOf(bytes)) {
        for (const encoding of ["latin1", "hex", "base64"] as const)
          for (const output of outputs) expect(output).not.to.include(key.toString(encoding));
      }
    });

    it("warns of what is legal and worth a second look", async () => {
      const input = newKeytab({ principal: "krbtgt/EXAMPLE.COM" }, { realm: "example.com" });

      const output = await cli().print("keytab inspect -", { input });

      expect(output).to.include("warning: holds keys that the whole realm rests on: krbtgt/EXAMPLE.COM@EXAMPLE.COM\n");
      expect(output).to.match(/\nwarning: has a realm that is not in upper case, perhaps misspelt: example\.com\n$/);
    });

    it("says the verdict of a policy in a file on each type", async () => {
      const policy = {
        allowedCiphers: ["AES256-SHA1", "rc4-hmac"],
        deprecated_ciphers: ["arcfour-hmac"],
        id: "ignored",
      };
      writeFileSync(join(cli().home, "policy.json"), JSON.stringify(policy));
      const input = newKeytab({ enctypes: [18, 23, 3] });

      const output = await cli().print("keytab inspect - --policy-file policy.json", { input });

      expect(output).to.match(/\npolicy: non_compliant\n {2}aes256-cts-hmac-sha1-96: allowed\n/);
      expect(output).to.include(
        "\n  arcfour-hmac: deprecated by the cipher policy\n  des-cbc-md5: not in allowed_ciphers\n",
      );
    });

    it("prints the same as JSON, with the names of the REST API", async () => {
      const { path, description } = readableFile("adcli-update");

      const { entries, ...record } = await cli().json(`keytab inspect ${path}`);

      expect(record).to.deep.equal({
        principal: description.summary.principal,
        realm: description.summary.realm,
        kvno: description.summary.kvno,
        encryption_types: description.summary.encryption_types,
        entry_count: description.summary.entry_count,
        keytab_hash: description.sha256,
        file_version: "0502",
        warnings: [],
        cipher_compliance: null,
        cipher_violations: null,
      });
      expect(entries.length).to.equal(description.entries.length);
      expect(entries[0]).to.deep.equal({
        principal: "WEB01$@AD.EXAMPLE.TEST",
        realm: "AD.EXAMPLE.TEST",
        kvno: 2,
        timestamp: "2026-11-20T04:05:46Z",
        encryption_type: "aes256-cts-hmac-sha1-96",
        key_length: 32,
      });
    });

    it("ends with status 7 for a damaged file, and says at which byte", async () => {
      const files = damaged.filter(({ name }) => ["truncated-key", "empty-file", "pem-certificate"].includes(name));

      for (const { path, name } of files) {
        const { status, stdout, stderr } = await cli().run(`keytab inspect ${path}`);
        expect({ status, stdout }, name).to.deep.equal({ status: 7, stdout: "" });
        expect(stderr).to.match(/^holdfast: \S+: byte \d+: [ -~]+\n$/);
      }
    });

    it("reads no more of a file than a keytab may have", async () => {
      const { status, stderr } = await cli().run("keytab inspect /dev/zero");

      expect(status).to.equal(7);
      expect(stderr).to.include("a keytab of more than 1048576 bytes is not read");
    });

    it("shows characters that could deceive a terminal as what they are", async () => {
      const input = newKeytab({ principal: "\u001b[2J\u202egone" });

      expect(await cli().print("keytab inspect -", { input })).to.include("\\u{1b}[2J\\u{202e}gone@EXAMPLE.COM");
    });
  });

  describe("with a server", () => {
    const server = useServer({ KEYTAB_ENABLED: "true" });
    const cli = useHoldfast(() => administrator(server));

    it("asks it for its policy, and sends it nothing of the file", async () => {
      const input = newKeytab({ enctypes: [18, 23] });

      const output = await cli().print("keytab inspect - --policy", { input });
      const json = await cli().json("keytab inspect - --policy", { input });

      expect(output).to.match(/\npolicy: warning\n/);
      expect(json.cipher_compliance).to.equal("warning");
      expect(json.cipher_violations).to.deep.equal({ "arcfour-hmac": "deprecated by the cipher policy" });
      expect((await server.admin.rest("GET", "/api/v1/keytabs")).body.total).to.equal(0);
    });
  });
});
