import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { useServer } from "../harness/server.ts";
import { answers } from "../harness/trouble.ts";
import { Links, linksPath, toWebhook } from "../server/links/links.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast link", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const links = new Links(server);
  links.useWorker();
  const cli = useHoldfast(() => administrator(server));
  const linksOf = async (id: string) => (await server.admin.rest("GET", linksPath(id))).body.data;

  describe("create", () => {
    it("ties a secret to the place that a file says, with its credentials", async () => {
      const receiver = await links.receiver();
      const { id } = await server.secret({ key: "LINKED" });
      const whereabouts = { config: { url: receiver.url() }, credentials: { signing_secret: "hunter2" } };
      writeFileSync(join(cli().home, "hook.json"), JSON.stringify(whereabouts));

      const args = "link create LINKED --integration webhook --file hook.json --name hook --environment eu";
      const printed = await cli().print(args);

      const [link] = await linksOf(id);
      await receiver.received(1);
      expect(printed).to.equal(
        `created the link ${link.id} of LINKED; holdfast sync status ${id} says how far it is\n`,
      );
      expect(link).to.include({ integration: "webhook", name: "hook", environment: "eu", has_credentials: true });
    });

    it("reads from standard input, writes nothing for now if it is told so, and prints the record", async () => {
      const { id } = await server.secret({ key: "QUIET" });
      const input = JSON.stringify({ config: { url: "https://hooks.example.com/quiet" } });

      const record = await cli().json("link create QUIET --integration webhook --file - --no-sync", { input });

      expect(record).to.deep.equal((await linksOf(id))[0]);
      expect(record).to.include({ sync_enabled: false, status: "disabled", has_credentials: false });
    });

    const unusable: [what: string, input: string][] = [
      ["no JSON", '{"credentials": {"token": "hunter2"'],
      ["no object", '"hunter2"'],
      ["no config", '{"credentials": {"token": "hunter2"}}'],
      ["credentials of another type", '{"config": {}, "credentials": "hunter2"}'],
    ];
    for (const [what, input] of unusable) {
      it(`refuses ${what} without repeating it`, async () => {
        const { status, stderr } = await cli().run("link create KEY --integration webhook --file -", { input });

        expect(status).to.equal(2);
        expect(stderr).to.include('must hold JSON: {"config": {…}, "credentials": {…}}').and.not.to.include("hunter2");
      });
    }

    it("says which field the server refuses", async () => {
      await server.secret({ key: "WRONG" });

      const { status, stderr } = await cli().run("link create WRONG --integration webhook --file -", {
        input: '{"config": {"uri": "https://hooks.example.com"}}',
      });

      expect(status).to.equal(7);
      expect(stderr).to.include("config.url");
    });
  });

  it("list shows the links of a secret, and their records with --json", async () => {
    const link = await links.of(toWebhook("https://hooks.example.com/a", { name: "a", sync_enabled: false }), {
      key: "LISTED",
    });

    const shown = await cli().print("link list LISTED");

    expect(shown).to.match(/^LINK +INTEGRATION +NAME +ENVIRONMENT +SYNC +STATUS\n/);
    expect(shown).to.match(new RegExp(`\n${link.id} +webhook +a +- +no +disabled\n$`));
    expect(await cli().json("link list LISTED")).to.deep.equal([link]);
  });

  describe("rm", () => {
    it("removes a link by its name or id, once somebody agrees", async () => {
      const one = await links.of(toWebhook("https://hooks.example.com/1", { name: "one", sync_enabled: false }), {
        key: "REMOVED",
      });
      const { body: other } = await links.post(one.secret_id, toWebhook("https://hooks.example.com/2"));

      const unasked = await cli().run("link rm REMOVED one");
      const removed = await cli().run("link rm REMOVED one --yes");
      const byId = await cli().run(`link rm REMOVED ${other.id} --yes`);
      const again = await cli().run("link rm REMOVED one --yes");

      expect([unasked.status, removed.status, byId.status, again.status]).to.deep.equal([2, 0, 0, 5]);
      expect(removed.stderr).to.equal(`holdfast: removed the link ${one.id}\n`);
      expect(again.stderr).to.equal("holdfast: there is no link one\n");
      expect(await linksOf(one.secret_id)).to.deep.equal([]);
    });

    it("deletes what was written first when it is to be purged, and keeps the link when that fails", async () => {
      const receiver = await links.receiver();
      const link = await links.of(toWebhook(receiver.url(), { name: "hook" }), { key: "PURGED" });
      await links.synced(link);

      receiver.behave(() => answers(403));
      const failed = await cli().run("link rm PURGED hook --purge --yes");
      receiver.behave();
      const removed = await cli().run("link rm PURGED hook --purge --yes");

      expect(failed.status).to.equal(8);
      expect(failed.stderr).to.include("403").and.to.include(`holdfast link list ${link.secret_id} says`);
      expect(removed.status).to.equal(0);
      expect(receiver.requests.map(({ body }) => body.event)).to.deep.equal([
        "secret.sync",
        "secret.purge",
        "secret.purge",
      ]);
      expect(await linksOf(link.secret_id)).to.deep.equal([]);
    });
  });
});
