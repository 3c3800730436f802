import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";

const deploy = fileURLToPath(new URL("../../deploy/", import.meta.url));
const units = readdirSync(deploy).filter((name) => name.endsWith(".service"));

const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0;
const describeWithSystemd = hasSystemd ? describe : describe.skip;
if (!hasSystemd) console.log("units are not tested: this machine has no systemd-analyze");

describeWithSystemd("Units for systemd", function () {
  this.timeout(60_000);
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-units-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  for (const name of units) {
    it(`hold nothing that systemd does not understand: ${name}`, () => {
      const unit = readFileSync(join(deploy, name), "utf8");
      const path = join(folder, name);
      // The program is not installed here.
      writeFileSync(path, unit.replace(/^ExecStart=\/usr\/local\/bin\/holdfast /m, `ExecStart=${process.execPath} `));

      const { status, stderr } = spawnSync("systemd-analyze", ["verify", path], { encoding: "utf8" });

      // It may have something to say of the machine's own units too.
      expect(stderr.split("\n").filter((line) => line.includes(name))).to.deep.equal([]);
      expect(status).to.equal(0);
    });
  }
});
