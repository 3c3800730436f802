import { expect } from "chai";
import { Host } from "../harness/host.ts";
import { useServer } from "../harness/server.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast admin agent", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  const cli = useHoldfast(() => administrator(server));
  const rest = async (path: string) => (await server.admin.rest("GET", `/api/v1/agents${path}`)).body;
  const enroll = async (hostname: string) => {
    const host = await Host.enroll(server, { hostname });
    server.beforeStop(() => host.close());
    return host;
  };
  const hoursUntil = (time: string) => (Date.parse(time) - Date.now()) / 3_600_000;

  describe("token", () => {
    it("creates a token to enroll with, and prints it alone", async () => {
      const { status, stdout, stderr } = await cli().run(
        "admin agent token create --hostname Web1.example.com --ttl-hours 2",
      );

      expect(status).to.equal(0);
      expect(stdout).to.match(/^\S{20,}\n$/);
      expect(stderr).to.match(
        /^holdfast: the token that web1\.example\.com enrolls with is shown this once; it ends \S+Z\n$/,
      );
      const [record] = (await rest("/enrollment-tokens")).data;
      expect(record.hostname).to.equal("web1.example.com");
      expect(stdout.startsWith(record.prefix)).to.equal(true);
      expect(hoursUntil(record.expires_at)).to.be.within(1.9, 2);
    });

    it("lets any host enroll within a day unless told otherwise", async () => {
      const token = await cli().json("admin agent token create");
      const said = await cli().run("admin agent token create");

      expect(token.hostname).to.equal(null);
      expect(hoursUntil(token.expires_at)).to.be.within(23.9, 24);
      expect(said.stderr).to.include("the token that any host enrolls with");
    });

    it("lists tokens without the tokens, and ends one by its id or prefix", async () => {
      const one = await cli().json("admin agent token create --hostname one.example.com");
      const two = await cli().json("admin agent token create --hostname two.example.com");

      const listed = await cli().print("admin agent token list");
      const records = await cli().json("admin agent token list");
      const byId = await cli().run(`admin agent token revoke ${one.id}`);
      const byPrefix = await cli().run(`admin agent token revoke ${two.prefix}`);
      const again = await cli().run(`admin agent token revoke ${two.prefix}`);

      expect(listed).to.match(/^PREFIX +HOST +EXPIRES +CREATED +ID\n/);
      expect(listed).to.match(new RegExp(`\n${one.prefix} +one\\.example\\.com +\\S+Z +\\S+Z +${one.id}\n`));
      expect(listed).not.to.include(one.token);
      expect(records.map(({ id }: { id: string }) => id)).to.include.members([one.id, two.id]);
      expect([byId.status, byPrefix.status, again.status]).to.deep.equal([0, 0, 5]);
      const left = (await rest("/enrollment-tokens?per_page=100")).data;
      expect(left.map(({ id }: { id: string }) => id)).not.to.include.members([one.id]);
      expect(await cli().json("admin agent token list")).to.deep.equal(left);
    });

    it("refuses a life of more than a day", async () => {
      expect((await cli().run("admin agent token create --ttl-hours 25")).status).to.equal(7);
    });
  });

  describe("list", () => {
    it("shows agents by their hosts, and selects by status and name", async () => {
      const web = await enroll("list-web.example.com");
      const db = await enroll("list-db.example.com");
      await cli().print("admin agent disable list-db.example.com");

      const listed = await cli().print("admin agent list --search LIST-");
      const disabled = await cli().json("admin agent list --status disabled");

      expect(listed).to.match(/^HOST +STATUS +LAST HEARTBEAT +LAST SCAN +KEYTABS +VERSION +ID\n/);
      expect(listed).to.match(new RegExp(`\nlist-db\\.example\\.com +disabled +\\S+ +- +0 .* ${db.id}\n`));
      expect(listed).to.match(new RegExp(`\nlist-web\\.example\\.com +\\S+ +\\S+ +- +0 .* ${web.id}\n`));
      expect(disabled.map(({ id }: { id: string }) => id)).to.deep.equal([db.id]);
      expect(await cli().json("admin agent list")).to.deep.equal((await rest("?per_page=100")).data);
    });
  });

  describe("an agent", () => {
    it("goes through a life: shown, disabled, enabled, removed", async () => {
      const { id } = await enroll("life.example.com");

      const byName = await cli().json("admin agent show LIFE.example.com");
      const byId = await cli().print(`admin agent show ${id}`);
      const disabled = await cli().json("admin agent disable life.example.com");
      const enabled = await cli().print("admin agent enable life.example.com");
      const unasked = await cli().run("admin agent rm life.example.com");
      const removed = await cli().run("admin agent rm life.example.com --yes");
      const gone = await cli().run("admin agent show life.example.com");

      expect(byName).to.include({ id, hostname: "life.example.com" });
      expect(byId).to.match(new RegExp(`^host +life\\.example\\.com\nid +${id}\nstatus +`));
      expect(disabled.status).to.equal("disabled");
      expect(enabled).to.match(/\nstatus +(online|offline)\n/);
      expect([unasked.status, removed.status, gone.status]).to.deep.equal([2, 0, 5]);
      expect(gone.stderr).to.equal("holdfast: there is no agent life.example.com\n");
    });

    it("is shown with what it could not read, as many lines as places", async () => {
      const host = await enroll("blind.example.com");
      await host.report([], { errors: [{ path: "/root/secret", reason: "permission denied" }] });

      const shown = await cli().print("admin agent show blind.example.com");

      expect(shown).to.match(/\ncould not read +1\n {2}\/root\/secret: permission denied\n$/);
      expect(await cli().json("admin agent show blind.example.com")).to.deep.equal(await rest(`/${host.id}`));
    });

    it("is named by its id when a host has had several", async () => {
      const first = await enroll("twice.example.com");
      const second = await enroll("twice.example.com");

      const unclear = await cli().run("admin agent show twice.example.com");

      expect(unclear.status).to.equal(2);
      expect(unclear.stderr).to.include("there are several: agent twice.example.com; say which by its id");
      expect(unclear.stderr).to.include(first.id).and.to.include(second.id);
      expect((await cli().json(`admin agent show ${second.id}`)).id).to.equal(second.id);
    });
  });
});
