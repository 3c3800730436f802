import { expect } from "chai";
import { until } from "../faults/own-engines.ts";
import type { Receiver } from "../harness/receiver.ts";
import { useServer } from "../harness/server.ts";
import { answers } from "../harness/trouble.ts";
import { Links, toWebhook } from "../server/links/links.ts";
import { startFront } from "./front.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

/** Lets requests wait at a receiver; answers how to let them go. */
function hold(receiver: Receiver): () => void {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  receiver.behave(() => promise);
  return () => resolve(undefined);
}

describe("holdfast sync", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const links = new Links(server);
  links.useWorker();
  const cli = useHoldfast(() => administrator(server));
  const statusOf = async (id: string) => (await server.admin.rest("GET", `/api/v1/secrets/${id}/sync-status`)).body;

  /** A secret with a link to a receiver of its own; the values that have come there. */
  const linked = async (key: string, fields: Record<string, unknown> = {}, secret: object = {}) => {
    const receiver = await links.receiver();
    const link = await links.of(toWebhook(receiver.url(), fields), { key, ...secret });
    return {
      receiver,
      link,
      id: link.secret_id as string,
      values: () => receiver.requests.map(({ body }) => body.value),
    };
  };

  /** The same, which is refused. */
  const refused = async (key: string) => {
    const made = await linked(key, { name: "picky" });
    made.receiver.behave(() => answers(403));
    await server.admin.rest("PUT", `/api/v1/secrets/${made.id}`, { value: "v2" });
    await links.failed(made.link);
    return made;
  };

  describe("status", () => {
    it("shows each target: where it is, how far it is, and why it failed", async () => {
      const { receiver, link, id } = await linked("SHOWN", { name: "eu prod" }, { environment: "production" });
      await links.synced(link);
      const { body: off } = await links.post(id, toWebhook(receiver.url("/off"), { sync_enabled: false }));
      const { body: failing } = await links.post(id, toWebhook(receiver.url("/failing"), { environment: "staging" }));
      receiver.behave(({ path }) => (path === "/failing" ? answers(403) : undefined));
      await links.write(link, "v2");
      await links.synced(link, 2);
      await links.failed(failing);

      const shown = await cli().print("sync status SHOWN");

      expect(shown).to.match(/^TARGET +INTEGRATION +NAME +ENVIRONMENT +STATUS +VERSION +SYNCED +ERROR\n/);
      expect(shown).to.match(new RegExp(`\n${link.id} +webhook +eu prod +production +synced +2 +\\S+Z\n`));
      expect(shown).to.match(new RegExp(`\n${off.id} +webhook +production +disabled +- +-\n`));
      expect(shown).to.match(new RegExp(`\n${failing.id} +webhook +staging +failed +\\S+ +\\S+ +refused: .*403.*\n`));
    });

    it("says that there are no links", async () => {
      await server.secret({ key: "UNLINKED" });

      expect(await cli().print("sync status UNLINKED")).to.equal("there are no links\n");
      expect((await cli().run("sync status UNLINKED --watch")).status).to.equal(0);
    });

    it("prints with --json what the REST API answers", async () => {
      const { link, id } = await linked("EXACT");
      await links.synced(link);

      expect(await cli().json("sync status EXACT")).to.deep.equal(await statusOf(id));
      expect((await cli().run("sync status EXACT --json --watch")).status).to.equal(2);
    });

    it("is for who has rotation:read", async () => {
      const { id } = await server.secret();
      const { token = "" } = await server.as("nobody", []);

      const { status, stderr } = await cli().run(`sync status ${id}`, { env: { HOLDFAST_TOKEN: token } });

      expect(status).to.equal(4);
      expect(stderr).to.include("permission rotation:read is required");
    });
  });

  describe("status --watch", () => {
    it("prints a line for each state until all is synced, and ends with 0", async () => {
      const { receiver, link } = await linked("WATCHED", { name: "hook" });
      await links.synced(link);
      const release = hold(receiver);
      await links.write(link, "v2");
      const { written, ended } = cli().start("sync status WATCHED --watch");
      await until(() => written.stdout.includes("syncing"), 30_000);

      release();
      const { status, stdout, stderr } = await ended;

      expect({ status, stderr }).to.deep.equal({ status: 0, stderr: "" });
      expect(stdout).to.match(
        /^(\S+Z {2}webhook hook: pending, version 1\n)?\S+Z {2}webhook hook: syncing, version 1\n\S+Z {2}webhook hook: synced, version 2\n$/,
      );
    });

    it("ends with 0 at once when all is synced, and with 1 when something has failed", async () => {
      const { link } = await linked("GOOD");
      await links.synced(link);
      await refused("BAD");

      const good = await cli().run("sync status GOOD --watch");
      const bad = await cli().run("sync status BAD --watch");

      expect(good.status).to.equal(0);
      expect(good.stdout).to.match(/^\S+Z {2}webhook \S+: synced, version 1\n$/);
      expect(bad.status).to.equal(1);
      expect(bad.stdout).to.match(/^\S+Z {2}webhook picky: failed, .*403.*\n$/);
    });

    it("ends with 130 at Ctrl-C, when nobody knows", async () => {
      const { receiver, link } = await linked("ENDLESS");
      await links.synced(link);
      hold(receiver);
      await links.write(link, "v2");
      const { child, written, ended } = cli().start("sync status ENDLESS --watch");
      await until(() => written.stdout !== "", 30_000);

      child.kill("SIGINT");

      expect((await ended).status).to.equal(130);
    });

    it("goes on when the server is away, and says so", async () => {
      const { receiver, link } = await linked("AWAY");
      await links.synced(link);
      const release = hold(receiver);
      await links.write(link, "v2");
      let isAway = false;
      const front = await startFront({
        target: server.url,
        intercept: (_, response) => {
          if (isAway) response.destroy();
          return isAway;
        },
      });
      const { written, ended } = cli().start("sync status AWAY --watch", { env: { HOLDFAST_URL: front.url } });
      await until(() => written.stdout !== "", 30_000);

      isAway = true;
      await until(() => written.stderr !== "", 30_000);
      isAway = false;
      release();
      const { status, stdout, stderr } = await ended;
      await front.close();

      expect(stderr).to.match(
        /^holdfast: the server cannot be reached: .*; still trying\nholdfast: the server answers again\n$/,
      );
      expect(stdout).to.match(/synced, version 2\n$/);
      expect(status).to.equal(0);
    });
  });

  describe("force", () => {
    it("has a secret written to its targets anew", async () => {
      const { receiver, link, values } = await linked("FORCED");
      await links.synced(link);

      const printed = await cli().print("sync force FORCED");

      await receiver.received(2);
      expect(printed).to.equal("one target will be written anew\n");
      expect(values()).to.deep.equal(["v1", "v1"]);
    });

    it("waits until it is written, and says how it went", async () => {
      const { receiver, link, values } = await linked("AWAITED", { name: "hook" });
      await links.synced(link);

      const good = await cli().run("sync force AWAITED --wait");
      const seen = [...values()];
      receiver.behave(() => answers(403));
      const bad = await cli().run("sync force AWAITED --wait");

      expect(good.status).to.equal(0);
      expect(good.stdout).to.match(
        /^one target will be written anew\n(\S+Z {2}webhook hook: (pending|syncing), version 1\n)+\S+Z {2}webhook hook: synced, version 1\n$/,
      );
      expect(seen).to.deep.equal(["v1", "v1"]);
      expect(bad.status).to.equal(1);
      expect(bad.stdout).to.match(/webhook hook: failed, version 1, refused: .*403.*\n$/);
    });

    it("is about the targets of one environment alone when one is named", async () => {
      const here = await linked("SCOPED", { environment: "a/b ü" });
      const elsewhere = await links.receiver();
      const { body: other } = await links.post(here.id, toWebhook(elsewhere.url(), { environment: "eu" }));
      await links.synced(here.link);
      await links.synced(other);

      const forced = await cli().run(["sync", "force", "SCOPED", "--environment", "a/b ü", "--wait"]);
      const none = await cli().print("sync force SCOPED --environment nowhere --wait");

      expect(forced.status).to.equal(0);
      expect(here.values()).to.deep.equal(["v1", "v1"]);
      expect(elsewhere.requests).to.have.length(1);
      expect(none).to.equal("no targets will be written anew\n");
    });

    it("prints with --json what the REST API answers", async () => {
      const { link, id } = await linked("RECORD");
      await links.synced(link);

      const { queued, requested_at, environment, ...rest } = await cli().json("sync force RECORD");

      expect([queued, environment]).to.deep.equal([1, undefined]);
      expect(Date.parse(requested_at)).to.be.above(0);
      expect(rest).to.have.all.keys("id", "sync_enabled", "targets");
      expect(rest.id).to.equal(id);
      expect(rest.targets[0].target_id).to.equal(link.id);
    });

    it("is for who has secret:write", async () => {
      const { id } = await server.secret();
      const { token = "" } = await server.as("viewer", ["viewer"]);

      const { status, stderr } = await cli().run(`sync force ${id}`, { env: { HOLDFAST_TOKEN: token } });

      expect(status).to.equal(4);
      expect(stderr).to.include("permission secret:write is required");
    });
  });
});
