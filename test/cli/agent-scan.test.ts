import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { keysOf, newKeytab } from "../harness/keytabs.ts";
import { useHoldfast } from "./holdfast.ts";

describe("holdfast agent scan", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const cli = useHoldfast(() => ({}));
  const file = newKeytab({ principal: "host/web1", kvno: 2, enctypes: [18, 23] }, { kvno: 1, principal: "host/web1" });
  const path = (name: string) => join(cli().home, name);
  before(() => {
    mkdirSync(path("tree"));
    writeFileSync(path("tree/a.keytab"), file);
    chmodSync(path("tree/a.keytab"), 0o644);
    writeFileSync(path("tree/damaged.keytab"), Buffer.from([5, 2, 0, 0, 0, 9]));
  });

  it("prints what it finds, what is to be looked at, and on standard error what it could not read", async () => {
    const { status, stdout, stderr } = await cli().run(
      `agent scan --no-default-places --root tree --root ${path("no")}`,
    );

    expect(status).to.equal(0);
    const [heads, row, ...more] = stdout.trimEnd().split("\n");
    expect(heads?.split(/ +/)).to.deep.equal(["FILE", "PRINCIPAL", "KVNO", "TYPES", "MODE", "OWNER", "FINDINGS"]);
    expect(row?.split(/ {2,}/).slice(0, 5)).to.deep.equal([
      path("tree/a.keytab"),
      "host/web1@EXAMPLE.COM",
      "1, 2",
      "aes256-cts-hmac-sha1-96, arcfour-hmac",
      "0644",
    ]);
    expect(row).to.include("world_readable, group_readable");
    expect(more).to.deep.equal([]);
    expect(stderr.split("\n").slice(0, 2)).to.deep.equal([
      `holdfast: ${path("tree/damaged.keytab")}: byte 2: the record goes past the end of the file at byte 6`,
      `holdfast: ${path("no")}: there is nothing`,
    ]);
  });

  it("prints as JSON what an agent would report, without keys", async () => {
    const output = await cli().print("agent scan --json --no-default-places --root tree/*");

    const { keytabs, roots, errors } = JSON.parse(output);
    expect(roots).to.deep.equal([path("tree/*")]);
    expect(errors.map((error: { path: string }) => error.path)).to.deep.equal([path("tree/damaged.keytab")]);
    expect(keytabs.length).to.equal(1);
    const { keytab_hash: hash, file_owner: owner, findings, ...rest } = keytabs[0];
    expect(hash).to.match(/^[0-9a-f]{64}$/);
    expect(owner).to.match(/^\S+:\S+$/);
    expect(findings).to.include.members(["world_readable", "group_readable"]);
    expect(rest).to.deep.equal({
      file_path: path("tree/a.keytab"),
      root: path("tree/*"),
      principal: "host/web1@EXAMPLE.COM",
      realm: "EXAMPLE.COM",
      kvnos: [1, 2],
      encryption_types: ["aes256-cts-hmac-sha1-96", "arcfour-hmac"],
      file_permissions: "0644",
    });
    for (const key of keysOf(file)) {
      for (const encoding of ["latin1", "hex", "base64"] as const)
        expect(output).not.to.include(key.toString(encoding));
    }
  });

  it("looks where keytabs usually are, and where the environment says, unless told otherwise", async () => {
    const env = { KRB5_KTNAME: `FILE:${path("tree/a.keytab")}`, KRB5_CONFIG: "/dev/null" };

    const usual = JSON.parse(await cli().print("agent scan --json", { env }));
    const none = JSON.parse(await cli().print("agent scan --json --no-default-places", { env }));

    expect(usual.roots).to.include.members(["/etc/krb5.keytab", path("tree/a.keytab")]);
    expect(usual.keytabs.map((each: { file_path: string }) => each.file_path)).to.include(path("tree/a.keytab"));
    expect(none).to.deep.equal({ keytabs: [], roots: [], errors: [] });
  });
});
