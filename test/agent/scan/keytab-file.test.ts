import { spawnSync } from "node:child_process";
import { chownSync, symlinkSync } from "node:fs";
import { expect } from "chai";
import { KeytabFileError, readKeytabFile } from "../../../src/agent/scan/keytab-file.ts";
import { newKeytab } from "../../harness/keytabs.ts";
import { damaged } from "../../standards/keytab-files.ts";
import { useFolder } from "./folder.ts";

describe("a keytab file", () => {
  const folder = useFolder();

  const errorOf = (path: string) =>
    readKeytabFile(path, "/").then(
      () => undefined,
      (error: unknown) => (error instanceof KeytabFileError ? error : undefined),
    );

  it("is read with its exact bytes, and with what a scan says of it", async () => {
    const bytes = newKeytab({ principal: "host/a.example", realm: "R", kvno: 300, enctypes: [18, 23] }, { kvno: 2 });
    const path = folder.write("a", bytes, 0o604);

    const keytab = await readKeytabFile(path, folder.path);

    expect(keytab.bytes.equals(bytes)).to.equal(true);
    expect(keytab.found).to.deep.include({
      filePath: path,
      root: folder.path,
      principal: "host/a.example@R",
      realm: "R",
      kvnos: [300],
      encryptionTypes: ["aes256-cts-hmac-sha1-96", "arcfour-hmac"],
      permissions: "0604",
    });
  });

  it("has an owner in numbers when the host knows no names for them", async function () {
    if (process.getuid?.() !== 0) {
      console.log("      (only root can give a file away)");
      this.skip();
    }
    const path = folder.write("a", newKeytab());
    chownSync(path, 3_123_456_789, 3_123_456_788);

    expect((await readKeytabFile(path, "/")).found.owner).to.equal("3123456789:3123456788");
  });

  it("is not read where there is a link, a FIFO or a folder, and nobody waits for another end", async () => {
    symlinkSync(folder.write("a", newKeytab()), folder.at("link"));
    spawnSync("mkfifo", [folder.at("fifo")]);

    const errors = await Promise.all([folder.at("link"), folder.at("fifo"), folder.path].map(errorOf));

    for (const error of errors) expect(error).to.include({ fault: "other", message: "this is no regular file" });
  });

  it("that is gone says so", async () => {
    expect(await errorOf(folder.at("gone"))).to.include({
      fault: "absent",
      message: "no such file or directory (ENOENT)",
    });
  });

  it("that is damaged, or something else, says where", async () => {
    const rejected = damaged.filter(({ description }) => description.recommended === "reject");

    const errors = await Promise.all(rejected.map(({ path }) => errorOf(path)));

    for (const [index, { name, bytes }] of rejected.entries()) {
      const begins = bytes[0] === 5 && (bytes[1] === 1 || bytes[1] === 2);
      expect(errors[index]?.fault, name).to.be.oneOf(begins ? ["damaged", "unsettled"] : ["other"]);
      expect(errors[index]?.message, name).to.match(/^byte \d+: [ -~]+$/);
    }
  });
});
