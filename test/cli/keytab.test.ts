import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { foundKeytab, Host } from "../harness/host.ts";
import { importKeytab, newKeytab } from "../harness/keytabs.ts";
import { useServer } from "../harness/server.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

const nowhere = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

describe("holdfast keytab", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  const cli = useHoldfast(() => administrator(server));
  const rest = async (path: string) => (await server.admin.rest("GET", `/api/v1/keytabs${path}`)).body;
  const write = (name: string, bytes: Buffer) => writeFileSync(join(cli().home, name), bytes);

  it("imports a file under the name of its principal, without a project unless one is named", async () => {
    write("a.keytab", newKeytab({ principal: "HTTP/a.example.com", kvno: 3 }));

    const output = await cli().print("keytab import a.keytab");

    const [, id] =
      /^imported HTTP\/a\.example\.com@EXAMPLE\.COM: (kt_\S+); .*, kvno 3: compliant\n$/.exec(output) ?? [];
    expect(await rest(`/${id}`)).to.include({ name: "HTTP/a.example.com@EXAMPLE.COM", project_id: null, notes: "" });
  });

  it("imports with everything that is said of the file, from standard input too", async () => {
    const input = newKeytab();
    const options = [
      "--name",
      "web",
      "--project",
      "default",
      "--notes",
      "n",
      "--expires-at",
      "2099-01-31T12:00:00+01:00",
    ];

    const record = JSON.parse(await cli().print(["keytab", "import", "-", "--json", ...options], { input }));

    expect(record).to.deep.equal(await rest(`/${record.id}`));
    expect(record).to.include({ name: "web", project_id: server.projectId, notes: "n" });
    expect(record.expires_at).to.equal("2099-01-31T11:00:00.000Z");
  });

  it("names the byte of a damaged file, sends it nowhere, and never a key", async () => {
    const bytes = newKeytab();
    write("cut.keytab", bytes.subarray(0, -3));

    const { status, stdout, stderr } = await cli().run("keytab import cut.keytab", { env: { HOLDFAST_URL: "" } });

    expect({ status, stdout }).to.deep.equal({ status: 7, stdout: "" });
    expect(stderr).to.equal(
      `holdfast: cut.keytab: byte 2: the record goes past the end of the file at byte ${bytes.length - 3}\n`,
    );
  });

  it("says that a file is there already", async () => {
    const bytes = newKeytab();
    await importKeytab(server.admin, bytes);

    const { status } = await cli().run("keytab import -", { input: bytes });

    expect(status).to.equal(6);
  });

  it("lists keytabs by all that they can be selected by, as a table and as the REST API answers", async () => {
    const fields = { principal: "nfs/list.example.com", realm: "LIST.EXAMPLE" };
    const weak = await importKeytab(server.admin, newKeytab({ ...fields, enctypes: [18, 23] }), { name: "weak" });
    const late = await importKeytab(server.admin, newKeytab(fields), {
      project_id: server.projectId,
      expires_at: "2020-01-01T00:00:00Z",
    });
    const ids = async (filters: string) =>
      (await cli().json(`keytab list --realm list.example ${filters}`)).map(({ id }: { id: string }) => id);

    const table = await cli().print("keytab list --realm LIST.example --compliance warning");
    const all = await cli().json("keytab list --realm LIST.EXAMPLE");

    expect(table).to.match(
      new RegExp(
        `^NAME +PRINCIPAL +KVNO +STATUS +COMPLIANCE +VERSION +EXPIRES +ID\n` +
          `weak +nfs/list.example.com@LIST.EXAMPLE +1 +active +warning +1 +- +${weak.id}\n$`,
      ),
    );
    expect(all).to.deep.equal((await rest("?realm=LIST.EXAMPLE")).data);
    expect(await ids("--status expired")).to.deep.equal([late.id]);
    expect(await ids("--project default")).to.deep.equal([late.id]);
    expect(await ids("--principal NFS/ --source import")).to.deep.equal([late.id, weak.id]);
    expect(await ids("--source agent")).to.deep.equal([]);
  });

  it("shows all of them, however many pages there are", async () => {
    const realm = "MANY.EXAMPLE";
    for (let index = 0; index <= 100; index += 1) await importKeytab(server.admin, newKeytab({ realm }));

    expect((await cli().json(`keytab list --realm ${realm}`)).length).to.equal(101);
  });

  it("shows a record and its history, with and without kt_ before the id", async () => {
    const { id } = await importKeytab(server.admin, newKeytab({ kvno: 4 }), { name: "shown" });
    write("next.keytab", newKeytab({ kvno: 5 }));

    const replaced = await cli().print(["keytab", "replace", id, "next.keytab", "--reason", "rotated"]);
    const shown = await cli().print(`keytab get ${id.slice(3)}`);
    const history = await cli().print(`keytab history ${id}`);

    expect(replaced).to.equal("shown is at version 2; HTTP/web.example.com@EXAMPLE.COM, kvno 5: compliant\n");
    expect(shown).to.include("principal   HTTP/web.example.com@EXAMPLE.COM\n").and.to.include("version     2\n");
    expect(history).to.match(/^VERSION .*\n2 +\S+Z +5 .* rotated\n1 +\S+Z +4 .* imported\n$/);
    expect(await cli().json(`keytab get ${id}`)).to.deep.equal(await rest(`/${id}`));
    expect(await cli().json(`keytab history ${id}`)).to.deep.equal(await rest(`/${id}/history`));
  });

  describe("download", () => {
    it("gives the very bytes of any version to standard output", async () => {
      const [first, second] = [newKeytab({ kvno: 1 }), newKeytab({ kvno: 2 }, { kvno: 1 })];
      const { id } = await importKeytab(server.admin, first);
      await cli().print(`keytab replace ${id} -`, { input: second });
      const downloaded = async (options: string) => {
        await cli().print(`keytab download ${id} ${options}`);
        return readFileSync(join(cli().home, "out.keytab"));
      };

      const piped = await cli().print(`keytab download ${id}`);

      expect(piped).to.equal(second.toString("utf8"));
      expect((await downloaded("--output out.keytab")).equals(second)).to.equal(true);
      expect((await downloaded("-o out.keytab --version 1")).equals(first)).to.equal(true);
    });

    it("writes a file for its owner only, also over one that others could read, and leaves nothing beside it", async () => {
      const { id } = await importKeytab(server.admin, newKeytab());
      mkdirSync(join(cli().home, "out"));
      writeFileSync(join(cli().home, "out/a.keytab"), "old", { mode: 0o644 });

      const { status, stdout, stderr } = await cli().run(`keytab download ${id} -o out/a.keytab`);

      expect({ status, stdout }).to.deep.equal({ status: 0, stdout: "" });
      expect(stderr).to.equal("holdfast: wrote out/a.keytab, for its owner only\n");
      expect(lstatSync(join(cli().home, "out/a.keytab")).mode & 0o777).to.equal(0o600);
      expect(readdirSync(join(cli().home, "out"))).to.deep.equal(["a.keytab"]);
    });

    it("replaces no link, device or folder, and says when it cannot write", async () => {
      const { id } = await importKeytab(server.admin, newKeytab());
      symlinkSync("elsewhere", join(cli().home, "link.keytab"));

      const targets = ["link.keytab", ".", "no/where"];
      const runs = await Promise.all(targets.map((target) => cli().run(`keytab download ${id} -o ${target}`)));

      expect(runs.map(({ status }) => status)).to.deep.equal([2, 2, 2]);
      expect(runs[0]?.stderr).to.equal("holdfast: link.keytab is there, and is no file\n");
      expect(runs[2]?.stderr).to.equal("holdfast: cannot write no/where (ENOENT)\n");
    });
  });

  it("deletes with consent only", async () => {
    const { id } = await importKeytab(server.admin);

    const asked = await cli().run(`keytab rm ${id}`);
    const agreed = await cli().run(`keytab rm ${id} --yes`);
    const again = await cli().run(`keytab rm ${id} --yes`);

    expect([asked.status, agreed.status, again.status]).to.deep.equal([2, 0, 5]);
    expect(agreed.stderr).to.match(/^holdfast: deleted kt_/);
  });

  it("checks one keytab, and all, against a policy that can be tried before it is set", async () => {
    const { id } = await importKeytab(server.admin, newKeytab({ enctypes: [18, 16] }), { name: "des3" });
    const current = await cli().print("keytab policy get --json");
    write("policy.json", Buffer.from(current));
    const verdict = async () => (await rest(`/${id}`)).cipher_compliance;

    const preview = await cli().print(
      "keytab policy preview --allow aes256-sha1,des3-hmac-sha1 --deprecate des3-hmac-sha1",
    );
    const previewed = await cli().json(
      "keytab policy preview --limit 1 --allow aes256-sha1,des3-cbc-sha1 --deprecate ,",
    );
    const set = await cli().print("keytab policy set --allow aes256-sha1,des3-hmac-sha1 --deprecate des3-hmac-sha1");
    const before = await verdict();
    const checked = await cli().print(`keytab check ${id}`);
    const after = await verdict();
    await cli().print("keytab policy set --file policy.json");
    const refreshed = await cli().print("keytab refresh");

    expect(preview).to.match(
      /^\d+ of \d+ keytabs would have another verdict\n0 of 0 files on hosts would .*\n\d+ prin/,
    );
    expect(preview).to.match(new RegExp(`\ndes3 +\\S+ +non_compliant +warning +des3-cbc-sha1 +${id}\n`));
    expect(previewed.keytabs.length).to.equal(1);
    expect(set).to.match(
      /^mode +warn\nallowed +aes256-sha1, des3-hmac-sha1\ndeprecated +des3-hmac-sha1\nupdated +\S+Z\n$/,
    );
    expect([before, after, await verdict()]).to.deep.equal(["non_compliant", "warning", "non_compliant"]);
    expect(checked).to.equal("warning\n  des3-cbc-sha1: deprecated by the cipher policy\n");
    expect(refreshed).to.match(/^\d+ of \d+ keytabs have another verdict now\n$/);
    const { updated_at: _, ...terms } = await cli().json("keytab policy get");
    expect(JSON.parse(current)).to.include.keys(Object.keys(terms)).and.to.deep.include(terms);
  });

  const unusable: [what: string, args: string, text: string][] = [
    ["nothing of a policy", "keytab policy set", ""],
    ["a file and what is in it", "keytab policy set --file p.json --mode warn", "{}"],
    ["a file that is none", "keytab policy set --file nowhere.json", ""],
    ["a file that is not JSON", "keytab policy set --file p.json", "allow everything"],
    ["a file with other types", "keytab policy set --file p.json", '{"allowed_ciphers":"aes"}'],
    ["the name of a family", "keytab policy set --file p.json", '{"allowed_ciphers":["aes"]}'],
    ["a time without a zone", "keytab import a --expires-at 2027-01-31T12:00:00", ""],
    ["a day that is none", "keytab import a --expires-at 2027-13-31T12:00:00Z", ""],
    ["a status that is none", "keytab list --status gone", ""],
    ["a file that is not there", "keytab import nowhere", ""],
  ];
  for (const [what, args, text] of unusable) {
    it(`refuses ${what}`, async () => {
      write("p.json", Buffer.from(text));

      const { status, stdout } = await cli().run(args);

      expect({ status, stdout }).to.deep.equal({ status: 2, stdout: "" });
    });
  }

  it("summarizes what there is", async () => {
    await importKeytab(server.admin, newKeytab(), {
      name: "soon",
      expires_at: new Date(Date.now() + 864e5).toISOString(),
    });

    const text = await cli().print("keytab dashboard");
    const json = await cli().json("keytab dashboard");

    expect(json).to.deep.equal(await rest("/dashboard"));
    expect(text).to.include(`keytabs          ${json.overview.total}\n`);
    expect(text).to.match(/\non hosts:\nworld readable +0\n/);
    expect(text).to.match(/\nTYPE +KEYTABS\naes256-cts-hmac-sha1-96 +\d+\n/);
    expect(text).to.match(/\nsoon +\S+ +\S+Z +[12] +kt_\S+\n/);
  });

  describe("discovered", () => {
    /** A host with these files, that answers for them. */
    const hostWith = async (files: Record<string, Buffer>) => {
      const host = await Host.enroll(server);
      server.beforeStop(() => host.close());
      const held = new Map(Object.entries(files));
      const report = () =>
        host.report([...held].map(([path, bytes]) => foundKeytab(path, bytes, { filePermissions: "0644" })));
      await report();
      host.answerUploads(held);
      const records = await cli().json(`keytab discovered list --agent ${host.id}`);
      return { host, held, report, records };
    };

    it("lists what agents found by all that it can be selected by", async () => {
      const { host, records } = await hostWith({
        "/etc/a.keytab": newKeytab(),
        "/etc/b.keytab": newKeytab({ realm: "B" }),
      });
      const files = async (filters: string) =>
        (await cli().json(`keytab discovered list --agent ${host.id} ${filters}`))
          .map((record: { file_path: string }) => record.file_path)
          .sort();

      const table = await cli().print(`keytab discovered list --agent ${host.id} --realm b`);

      expect(table).to.match(/^HOST +FILE +PRINCIPAL +KVNO +STATE +MODE +OWNER +FINDINGS +ID\n/);
      expect(table).to.match(
        new RegExp(`\n${host.hostname} +/etc/b.keytab .* discovered +0644 +root:root +world_readable`),
      );
      expect(records).to.deep.equal((await rest(`/discovered?agent_id=${host.id}`)).data);
      expect(await files("--finding world_readable --state discovered")).to.deep.equal([
        "/etc/a.keytab",
        "/etc/b.keytab",
      ]);
      expect(await files("--principal example.com@e")).to.deep.equal(["/etc/a.keytab"]);
      expect(await files("--drifted")).to.deep.equal([]);
    });

    it("ignores a file with a reason, and takes that back", async () => {
      const { host, records } = await hostWith({ "/etc/a.keytab": newKeytab() });

      const ignored = await cli().print(["keytab", "discovered", "ignore", records[0].id, "--reason", "a test"]);
      const record = await rest(`/discovered/${records[0].id}`);
      const back = await cli().json(`keytab discovered unignore ${records[0].id}`);

      expect(ignored).to.equal(`${host.hostname}:/etc/a.keytab is ignored\n`);
      expect(record).to.include({ state: "ignored", ignored_reason: "a test" });
      expect(back.state).to.equal("discovered");
    });

    it("takes a file over from its host, and the file that it becomes", async () => {
      const { held, report, records } = await hostWith({ "/etc/a.keytab": newKeytab({ kvno: 1 }) });

      const imported = await cli().print(`keytab discovered import ${records[0].id} --name taken --project default`);
      const [, id] = /^(kt_\S+) has version 1 of taken: compliant\n$/.exec(imported) ?? [];
      held.set("/etc/a.keytab", newKeytab({ kvno: 2 }));
      await report();
      const drifted = await cli().print("keytab discovered list --drifted");
      const resynced = await cli().json(`keytab discovered resync ${records[0].id} --reason rotated`);

      expect(drifted).to.include("imported, drifted");
      expect(resynced).to.deep.equal(await rest(`/${id}`));
      expect(resynced).to.include({ kvno: 2, version: 2, source: "discovered", project_id: server.projectId });
      expect((await rest(`/${id}/history`))[0].change_reason).to.equal("rotated");
    });

    it("says that the host is away", async () => {
      const { host, records } = await hostWith({ "/etc/a.keytab": newKeytab() });
      host.close();
      await host.fallSilent();

      const { status, stderr } = await cli().run(`keytab discovered import ${records[0].id}`);

      expect(status).to.equal(8);
      expect(stderr).to.include(`agent ${host.hostname} is offline`);
    });
  });

  it("tells the difference between what is missing, forbidden and switched off", async () => {
    const viewer = await server.as("keytab-viewer", ["viewer"]);
    const { id } = await importKeytab(server.admin);

    const missing = await cli().run(`keytab get kt_${nowhere}`);
    const forbidden = await cli().run(`keytab download ${id}`, { env: { HOLDFAST_TOKEN: viewer.token ?? "" } });

    expect([missing.status, forbidden.status]).to.deep.equal([5, 4]);
    expect(forbidden.stdout).to.equal("");
  });
});
