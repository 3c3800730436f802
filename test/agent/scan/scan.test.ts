import { spawnSync } from "node:child_process";
import { chmodSync, linkSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { expect } from "chai";
import { type Scan, scanHost } from "../../../src/agent/scan/scan.ts";
import { keysOf, newKeytab } from "../../harness/keytabs.ts";
import { readable } from "../../standards/keytab-files.ts";
import { useFolder } from "./folder.ts";
import { only, scanAsNobody, scanWithMount } from "./scan-as.ts";

const pathsOf = ({ keytabs }: Scan) => keytabs.map(({ filePath }) => filePath);

describe("a scan of a host", () => {
  const folder = useFolder();

  it("says of each keytab what MIT reads in it, whatever tool wrote it", async () => {
    for (const { name, bytes } of readable) folder.write(`${name}.keytab`, bytes, 0o640);

    const { keytabs, roots, errors } = await scanHost(only(folder.path));

    expect(errors).to.deep.equal([]);
    expect(roots).to.deep.equal([folder.path]);
    const expected = readable.map(({ name, description: { sha256, entries, summary } }) => ({
      filePath: folder.at(`${name}.keytab`),
      hash: sha256,
      principal: summary.principal,
      kvnos: [...new Set(entries.filter((each) => each.principal === summary.principal).map(({ kvno }) => kvno))],
      encryptionTypes: summary.encryption_types,
    }));
    const found = keytabs.map(({ filePath, hash, principal, kvnos, encryptionTypes }) => ({
      filePath,
      hash,
      principal,
      kvnos,
      encryptionTypes,
    }));
    for (const { kvnos } of expected) kvnos.sort((one, other) => one - other);
    expect(found).to.deep.equal(expected);
  });

  it("holds no key", async () => {
    const file = newKeytab({ enctypes: [18, 17, 23] });
    folder.write("a.keytab", file);

    const scan = JSON.stringify(await scanHost(only(folder.path)));

    for (const key of keysOf(file)) {
      for (const encoding of ["latin1", "hex", "base64"] as const) expect(scan).not.to.include(key.toString(encoding));
    }
  });

  it("says the permissions, with the special bits, and the owner by name", async () => {
    chmodSync(folder.write("a.keytab", newKeytab()), 0o4640);

    const { keytabs } = await scanHost(only(folder.path));

    const owner = ["u", "g"].map((what) => spawnSync("id", [`-${what}n`], { encoding: "utf8" }).stdout.trim());
    expect(keytabs[0]).to.include({ permissions: "4640", owner: owner.join(":") });
  });

  describe("finds", () => {
    it("by name and content: copies that were left beside keytabs too, and no other files", async () => {
      const keytabs = ["a.keytab", "b.kt", "c.KTAB", "d/krb5.keytab.bak", "e/keytab", "f/.g.keytab~"];
      for (const name of keytabs) folder.write(name, newKeytab());
      folder.write("other", newKeytab());
      folder.write("Main.kt", "fun main() {}");
      folder.write("empty.keytab", "");
      folder.write("cache.keytab", Buffer.from([5, 4, 0, 0]));
      folder.write("large.keytab", Buffer.alloc(2 ** 20 + 1, 7));

      const scan = await scanHost(only(folder.path));

      expect(pathsOf(scan)).to.deep.equal(keytabs.map((name) => folder.at(name)).sort());
      expect(scan.errors).to.deep.equal([]);
    });

    it("whatever a root names, if it is a keytab", async () => {
      const path = folder.write("no-usual-name", newKeytab());

      const { keytabs, roots } = await scanHost(only(path));

      expect(keytabs[0]).to.include({ filePath: path, root: path });
      expect(roots).to.deep.equal([path]);
    });

    it("what patterns fit: files of any name, and folders with all below them", async () => {
      for (const name of ["a/x1/one", "a/x2/two", "a/y/three", "b/c/d/four.keytab", "b/five"]) {
        folder.write(name, newKeytab());
      }
      const found = async (pattern: string) => pathsOf(await scanHost(only(folder.at(pattern))));

      expect(await found("a/x?/*")).to.deep.equal([folder.at("a/x1/one"), folder.at("a/x2/two")]);
      expect(await found("*/five")).to.deep.equal([folder.at("b/five")]);
      expect(await found("**/t*")).to.deep.equal([folder.at("a/x2/two"), folder.at("a/y/three")]);
      expect(await found("**/five")).to.deep.equal([folder.at("b/five")]);
      expect(await found("*/c")).to.deep.equal([folder.at("b/c/d/four.keytab")]);
      expect(await found("b/**")).to.deep.equal([folder.at("b/c/d/four.keytab")]);
      expect(await found("a/x?")).to.deep.equal([]);
    });

    it("what is eight folders below a root, and nothing deeper", async () => {
      const deep = folder.write("1/2/3/4/5/6/7/8/a.keytab", newKeytab());
      folder.write("1/2/3/4/5/6/7/8/9/b.keytab", newKeytab());

      expect(pathsOf(await scanHost(only(folder.path)))).to.deep.equal([deep]);
      expect(pathsOf(await scanHost(only(folder.at("**/*.keytab"))))).to.deep.equal([deep]);
    });

    it("each file once, whatever links and roots lead to it, from the first of them, by its real path", async () => {
      const real = folder.write("away/real", newKeytab());
      const first = folder.write("tree/a.keytab", newKeytab());
      linkSync(first, folder.at("tree/b.keytab"));
      symlinkSync("a.keytab", folder.at("tree/c.keytab"));
      symlinkSync(real, folder.at("tree/d.keytab"));
      symlinkSync(folder.at("tree"), folder.at("link"));

      const { keytabs } = await scanHost(only(folder.at("link"), real, first));

      const found = keytabs.map(({ filePath, root }) => [filePath, root]);
      expect(found).to.deep.equal([
        [real, folder.at("link")],
        [first, folder.at("link")],
      ]);
    });

    it("what is behind links to folders where a pattern names them, and not where it does not", async () => {
      const path = folder.write("releases/7/app.keytab", newKeytab());
      mkdirSync(folder.at("apps/one"), { recursive: true });
      symlinkSync(folder.at("releases/7"), folder.at("apps/one/current"));
      symlinkSync(folder.path, folder.at("apps/one/loop"));

      expect(pathsOf(await scanHost(only(folder.at("apps/*/current/*.keytab"))))).to.deep.equal([path]);
      expect(pathsOf(await scanHost(only(folder.at("apps"))))).to.deep.equal([]);
      expect(pathsOf(await scanHost(only(folder.at("apps/**/*.keytab"))))).to.deep.equal([]);
    });

    it("nothing behind links that lead nowhere or in circles", async () => {
      symlinkSync("nowhere", folder.at("a.keytab"));
      symlinkSync("c.keytab", folder.at("b.keytab"));
      symlinkSync("b.keytab", folder.at("c.keytab"));

      const { keytabs, roots } = await scanHost(only(folder.path));

      expect(keytabs).to.deep.equal([]);
      expect(roots).to.deep.equal([folder.path]);
    });

    it("nothing in the interfaces of the kernel", async () => {
      const { keytabs, roots, errors } = await scanHost({
        ...only("/proc", "/sys/**/x", "/dev/null"),
        otherFileSystems: true,
      });

      expect([keytabs, errors]).to.deep.equal([[], []]);
      expect(roots).to.deep.equal(["/proc", "/sys/**/x", "/dev/null"]);
    });

    it("what is on other file systems only when it is asked to", function () {
      const options = only(folder.path);
      mkdirSync(folder.at("mounted"));
      const source = folder.write("source", newKeytab());
      symlinkSync("mounted/b", folder.at("link.keytab"));
      const write = `mkdir c && cp '${source}' b && cp '${source}' c/d.keytab`;
      const scan = (asked: boolean) =>
        scanWithMount(folder.at("mounted"), write, { ...options, otherFileSystems: asked });
      const usual = scan(false);
      if (usual === undefined) {
        console.log("      (nothing can be mounted here)");
        this.skip();
      }

      expect(pathsOf(usual)).to.deep.equal([]);
      expect(pathsOf(scan(true) ?? usual)).to.deep.equal([folder.at("mounted/b"), folder.at("mounted/c/d.keytab")]);
    });

    it("what is named by the environment and by krb5.conf, beside the usual places", async () => {
      const [service, host] = [folder.write("service", newKeytab()), folder.write("host", newKeytab())];
      const krb5 = folder.write("krb5.conf", `[libdefaults]\ndefault_keytab_name = FILE:${host}\n`);
      const environment = { KRB5_KTNAME: `WRFILE:${service}`, KRB5_CONFIG: krb5 };
      const options = { ...only(folder.at("nowhere")), environment };

      const scan = await scanHost({ ...options, defaultPlaces: true });

      expect(pathsOf(scan)).to.include.members([service, host]);
      expect(scan.roots).to.include.members(["/etc/krb5.keytab", "/etc/krb5", folder.at("nowhere"), service, host]);
      expect(pathsOf(await scanHost(options))).to.deep.equal([]);
    });
  });

  describe("tells as errors", () => {
    const reasons = ({ errors }: Scan) => Object.fromEntries(errors.map(({ path, reason }) => [path, reason]));

    it("damaged keytabs, with the byte", async () => {
      const path = folder.write("a.keytab", newKeytab());
      truncateSync(path, 40);

      const scan = await scanHost(only(folder.path));

      expect(reasons(scan)).to.deep.equal({ [path]: "byte 2: the record goes past the end of the file at byte 40" });
      expect(scan.roots).to.deep.equal([folder.path]);
    });

    it("whatever is no keytab where a root says that one is, which then does not count as looked through", async () => {
      const text = folder.write("text", "no keytab");
      const large = folder.write("large", Buffer.alloc(2 ** 20 + 1, 5));
      const fifo = folder.at("fifo");
      spawnSync("mkfifo", [fifo]);

      const scan = await scanHost(only(text, large, fifo));

      expect(reasons(scan)).to.deep.equal({
        [text]: "byte 0: this is text, not a keytab: perhaps what klist printed, or base64 once too often",
        [large]: "byte 1048576: a keytab of more than 1048576 bytes is not read",
        [fifo]: "this is no regular file",
      });
      expect(scan.roots).to.deep.equal([]);
    });

    it("names that are not UTF-8, since a path that is reported could not be opened", async () => {
      for (const name of ["b\xe9.keytab", "c\xe9"]) {
        const path = Buffer.from(`${folder.path}/${name}`, "latin1");
        if (name.endsWith("b")) writeFileSync(path, newKeytab());
        else mkdirSync(path);
      }
      const genuine = folder.write("\ufffd.keytab", newKeytab());

      const scan = await scanHost(only(folder.path));

      expect(pathsOf(scan)).to.deep.equal([genuine]);
      expect(new Set(Object.values(reasons(scan)))).to.deep.equal(new Set(["the name is not UTF-8"]));
      expect(scan.errors.length).to.equal(2);
    });

    it("what the user of the agent may not read, and leaves out roots of which nothing is known", function () {
      const seen = folder.write("open/a.keytab", newKeytab(), 0o644);
      const unreadable = folder.write("open/b.keytab", newKeytab(), 0o000);
      folder.write("open/closed/c.keytab", newKeytab());
      folder.write("shut/d.keytab", newKeytab());
      folder.write("shut/down/e.keytab", newKeytab());
      for (const name of ["", "open"]) chmodSync(folder.at(name), 0o755);
      for (const name of ["open/closed", "shut"]) chmodSync(folder.at(name), 0o000);

      const scan = scanAsNobody(
        only(folder.at("open"), folder.at("shut"), folder.at("shut/down/*"), unreadable, folder.at("shut/d.keytab")),
      );
      for (const name of ["open/closed", "shut"]) chmodSync(folder.at(name), 0o700);
      if (scan === undefined) {
        console.log("      (another user may not read the sources, and root may read everything)");
        this.skip();
      }

      expect(pathsOf(scan)).to.deep.equal([seen]);
      const denied = "permission denied (EACCES)";
      expect(reasons(scan)).to.deep.equal({
        [unreadable]: denied,
        [folder.at("open/closed")]: denied,
        [folder.at("shut")]: denied,
        [folder.at("shut/down")]: denied,
        [folder.at("shut/d.keytab")]: denied,
      });
      expect(scan.roots).to.deep.equal([folder.at("open")]);
    });

    it("configuration that the user of the agent may not read, since there may be more keytabs in it", function () {
      const krb5 = folder.write("closed/krb5.conf", "[libdefaults]\n");
      for (const name of ["", "closed"]) chmodSync(folder.at(name), 0o755);
      chmodSync(krb5, 0o000);

      const scan = scanAsNobody({ ...only(), defaultPlaces: true, environment: { KRB5_CONFIG: krb5 } });
      if (scan === undefined) {
        console.log("      (another user may not read the sources, and root may read everything)");
        this.skip();
      }

      expect(reasons(scan)[krb5]).to.equal("permission denied (EACCES)");
    });

    it("no more than a thousand, and then the root does not count as looked through", async () => {
      for (let index = 0; index <= 1000; index += 1) folder.write(`${index}.keytab`, Buffer.from([5, 2]));
      folder.write("other/a.keytab", newKeytab());

      const { errors, roots, keytabs } = await scanHost(only(folder.path, folder.at("other")));

      expect([errors.length, keytabs.length]).to.deep.equal([1000, 1]);
      expect(roots).to.deep.equal([folder.at("other")]);
    });

    it("a place with more files than are opened", async () => {
      for (let index = 0; index <= 5000; index += 1) folder.write(`${index}.kt`, "");
      folder.write("other/a.keytab", newKeytab());

      const scan = await scanHost(only(folder.at("other"), folder.path));

      expect(reasons(scan)).to.deep.equal({ [folder.path]: "there are more than 5000 files to open" });
      expect(scan.roots).to.deep.equal([folder.at("other")]);
      expect(scan.keytabs.length).to.equal(1);
    }).timeout(60_000);
  });

  it("waits for a file that is being written, and takes no part of it for the whole", async () => {
    const whole = newKeytab({ kvno: 7 }, { kvno: 8 });
    const path = folder.write("a.keytab", whole.subarray(0, whole.length - 1));
    const settled = folder.write("b.keytab", newKeytab());

    const scanning = scanHost(only(folder.path));
    setTimeout(() => writeFileSync(path, whole), 300);
    const { keytabs, errors } = await scanning;

    expect(errors).to.deep.equal([]);
    expect(keytabs.map(({ filePath }) => filePath)).to.deep.equal([path, settled]);
    expect(keytabs[0]?.kvnos).to.deep.equal([7, 8]);
  });

  it("counts places where nothing is as looked through", async () => {
    const path = folder.write("a.keytab", newKeytab());
    await scanHost(only(path));
    rmSync(path);

    const { keytabs, roots, errors } = await scanHost(only(path, folder.at("nowhere"), `${path}/below`));

    expect([keytabs, errors]).to.deep.equal([[], []]);
    expect(roots).to.deep.equal([path, folder.at("nowhere"), `${path}/below`]);
  });

  it("says in which folders a change is worth another scan", async () => {
    const file = folder.write("a/a.keytab", newKeytab());
    folder.write("b/c/d.keytab", newKeytab());
    const target = folder.write("away/e", newKeytab());
    symlinkSync(target, folder.at("b/e.keytab"));

    const { folders } = await scanHost(only(file, folder.at("b"), folder.at("missing"), folder.at("no/where")));

    const expected = ["a", "b", "b/c", "away"].map((name) => folder.at(name));
    expect(folders).to.have.members([...expected, dirname(folder.at("missing"))]);
  });

  it("leaves out some folders of a large tree, and none where there is a keytab, or that a root is", async () => {
    for (let index = 0; index < 300; index += 1) mkdirSync(folder.at(`large/${index}`), { recursive: true });
    const kept = ["large", "large/z/deep", "other"].map((name) =>
      dirname(folder.write(`${name}/a.keytab`, newKeytab())),
    );

    const { folders } = await scanHost(only(folder.at("large"), folder.at("other")));

    expect(folders).to.include.members(kept);
    expect(folders.length).to.be.lessThan(300);
  });

  it("ends when it is told to", async () => {
    const reason = await scanHost(only(folder.path), AbortSignal.abort("enough")).catch((error: unknown) => error);

    expect(reason).to.equal("enough");
  });
});
