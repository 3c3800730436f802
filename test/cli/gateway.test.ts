import { expect } from "chai";
import { until } from "../faults/own-engines.ts";
import { TestGateway } from "../harness/gateway.ts";
import { useServer } from "../harness/server.ts";
import { gatewaySecret, rotate } from "../server/gateways/rotations.ts";
import { type Front, startFront } from "./front.ts";
import { checkedSecret, registerPair } from "./gateways.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast gateway", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  const api = (verb: string, path: string, body?: object) => server.admin.rest(verb, `/api/v1${path}`, body);
  const deactivate = ({ id }: TestGateway, fields: object = {}) =>
    api("POST", `/admin/gateways/${id}/deactivate`, fields);

  const pair = (environment: string) => registerPair(server, environment);

  describe("status", () => {
    // The first of all tests.
    it("says that there are no gateways", async () => {
      expect(await cli().print("gateway status")).to.equal("no gateway has registered\n");
    });

    it("shows environments and gateways, and what could be done about them", async () => {
      const { primary, dr } = await pair("lisbon");
      await pair("porto");
      await deactivate(primary, { mark_failed: true });
      await api("POST", "/admin/failover/lisbon/activate-dr", {});
      const { fencingToken } = await dr.heartbeat();
      await primary.fallSilent(412);

      const shown = await cli().print("gateway status");

      expect(shown).to.match(/^ENVIRONMENT +STATUS +ACTIVE +FENCING TOKEN +PENDING +RUNNING\n/);
      expect(shown).to.match(new RegExp(`\nlisbon +failed_over +lisbon-dr +${fencingToken} +0 +0\n`));
      expect(shown).to.match(/\nporto +healthy +porto-primary +\d{19} +0 +0\n/);
      expect(shown).to.match(/\nGATEWAY +ENVIRONMENT +ROLE +STATUS +HEARTBEAT +FAILURES\n/);
      expect(shown).to.match(/\nlisbon-primary +lisbon +primary +failed, deactivated +6 min 5\d s ago +3\n/);
      expect(shown).to.match(/\nporto-dr +porto +dr-standby +standby +\d+ s ago +0\n/);
      expect(shown).to.match(/\nlisbon: can neither fail over nor fail back: primary has not recovered: .* ago\n/);
      expect(shown).to.match(/\nporto: can neither fail over nor fail back: primary is not in failed state: .*\n/);
    });

    it("says what can be done now", async () => {
      const { primary } = await pair("madrid");
      await deactivate(primary, { mark_failed: true });

      expect(await cli().print("gateway status")).to.match(/\nmadrid +down +- +- +0 +0\n/);
      expect(await cli().print("gateway status")).to.include("\nmadrid: can fail over, can fail back\n");
    });

    it("says what would work after a failover, and names what would not", async () => {
      const { dr } = await pair("oslo");
      await checkedSecret(server, dr);
      const failing = await checkedSecret(server, dr, "no route to the database");
      await gatewaySecret(server, "oslo");

      const shown = await cli().print("gateway status");

      expect(shown).to.include("\noslo: 1 of 3 ready, 1 failing, 1 unchecked\n");
      expect(shown).to.match(
        new RegExp(`\n  secret ${failing} does not work from oslo-dr: no route to the database \\(\\S+Z\\)\n`),
      );
    });

    it("prints with --json what the REST API answers", async () => {
      await pair("paris");
      const fixed = ({ gateways, environments, ...others }: Record<string, { environment: string }[]>) => ({
        ...others,
        generated_at: "",
        gateways: gateways
          ?.filter(({ environment }) => environment === "paris")
          .map((gateway) => ({ ...gateway, seconds_since_heartbeat: 0 })),
        environments: environments
          ?.filter(({ environment }) => environment === "paris")
          .map((each) => ({ ...each, blocked_reason: "" })),
      });

      const printed = await cli().json("gateway status");

      expect(fixed(printed)).to.deep.equal(fixed((await api("GET", "/admin/gateway-health")).body));
      expect(fixed(printed).environments).to.have.length(1);
    });

    it("is for who has the role gateway:admin, and for nobody else", async () => {
      const { token = "" } = await server.as("deputy", ["admin"]);

      const { status, stderr } = await cli().run("gateway status", { env: { HOLDFAST_TOKEN: token } });

      expect(status).to.equal(4);
      expect(stderr).to.include("role gateway:admin is required");
    });
  });

  describe("status --watch", () => {
    let front: Front | undefined;
    let isAway = false;
    afterEach(async () => {
      isAway = false;
      await front?.close();
      front = undefined;
    });

    it("prints a line for each state, and then for each that is another one, until Ctrl-C", async () => {
      const { primary } = await pair("rome");
      const { child, written, ended } = cli().start("gateway status --watch");
      await until(() => written.stdout.includes("rome-dr"), 30_000);
      const before = written.stdout;

      await deactivate(primary);
      await until(() => /rome-primary .*deactivated/.test(written.stdout), 30_000);
      child.kill("SIGINT");
      const { status, stderr } = await ended;

      const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ {2}`;
      expect(before).to.match(
        new RegExp(`(^|\n)${time}rome: healthy, rome-primary active under \\d{19}, 0 pending, 0 run`),
      );
      expect(before).to.match(new RegExp(`\n${time}rome-dr \\(dr-standby of rome\\): standby, heard of, 0 failures\n`));
      const changes = written.stdout
        .slice(before.length)
        .split("\n")
        .filter((line) => line.includes("rome"));
      expect(changes.map((line) => line.replace(/^\S+ {2}/, ""))).to.deep.equal([
        "rome: down, nobody active, 0 pending, 0 running, can fail back",
        "rome-primary (primary of rome): standby, deactivated, heard of, 0 failures",
      ]);
      expect({ status, stderr }).to.deep.equal({ status: 0, stderr: "" });
    });

    it("says when a gateway is gone", async () => {
      const { dr } = await pair("sofia");
      const { child, written, ended } = cli().start("gateway status --watch");
      await until(() => written.stdout.includes("sofia-dr"), 30_000);

      await api("DELETE", `/admin/gateways/${dr.id}`);
      await until(() => written.stdout.includes("gone"), 30_000);
      child.kill("SIGINT");
      await ended;

      expect(written.stdout).to.match(/\n\S+Z {2}sofia-dr \(dr-standby of sofia\): gone\n/);
    });

    it("goes on when the server is away, and says so, once", async () => {
      const { dr } = await pair("tallinn");
      let calls = 0;
      front = await startFront({
        target: server.url,
        intercept: (_, response) => {
          calls += 1;
          if (isAway) response.destroy();
          return isAway;
        },
      });
      const { child, written, ended } = cli().start("gateway status --watch", { env: { HOLDFAST_URL: front.url } });
      await until(() => written.stdout.includes("tallinn-dr"), 30_000);

      isAway = true;
      await until(() => written.stderr !== "", 30_000);
      const [before, looks] = [written.stderr, calls];
      // A look is five tries.
      await until(() => calls >= looks + 6, 30_000);
      isAway = false;
      await deactivate(dr);
      await until(() => /tallinn-dr .*deactivated/.test(written.stdout), 30_000);
      child.kill("SIGINT");
      const { status, stderr } = await ended;

      expect(before).to.match(/^holdfast: the server cannot be reached: .*; still trying\n$/);
      expect(stderr).to.equal(`${before}holdfast: the server answers again\n`);
      expect(status).to.equal(0);
    });

    it("ends when nobody answers from the start, and when who watches may not any more", async () => {
      const away = await cli().run("gateway status --watch", { env: { HOLDFAST_URL: "http://127.0.0.1:1" } });
      const watcher = await server.as("watcher", ["gateway:admin"]);
      const { written, ended } = cli().start("gateway status --watch", { env: { HOLDFAST_TOKEN: watcher.token } });
      await until(() => written.stdout !== "", 30_000);
      await api("PUT", `/machine-identities/${watcher.id}`, { roles: [] });
      const refused = await ended;

      expect([away.status, refused.status]).to.deep.equal([8, 4]);
      expect(refused.stderr).to.include("role gateway:admin is required");
    });

    it("is no record: --json goes without", async () => {
      expect((await cli().run("gateway status --watch --json")).status).to.equal(2);
    });
  });

  describe("tasks", () => {
    it("lists the tasks of a gateway by its name or id, also of a status, and of one that is retired", async () => {
      const { primary, dr } = await pair("vienna");
      const secret = await gatewaySecret(server, "vienna");
      const taskId = await rotate(server.admin, secret);

      const listed = await cli().print("gateway tasks vienna-primary");
      const running = await cli().json("gateway tasks vienna-primary --status running");
      const records = await cli().json(`gateway tasks ${primary.id} --status pending`);
      await api("DELETE", `/admin/gateways/${dr.id}`);
      const ofRetired = await cli().run(`gateway tasks ${dr.id}`);
      const byName = await cli().run("gateway tasks vienna-dr");
      const nonsense = await cli().run("gateway tasks vienna-primary --status done");

      expect(listed).to.match(/^TASK +TYPE +STATUS +ATTEMPT +CREATED +CLAIMED +FINISHED +SECRET +ERROR\n/);
      expect(listed).to.match(new RegExp(`\n${taskId} +rotate_secret +pending +1 of 3 +\\S+Z +- +- +${secret.id}\n`));
      expect(running).to.deep.equal([]);
      expect(records).to.deep.equal((await api("GET", `/admin/gateways/${primary.id}/tasks`)).body);
      expect([ofRetired.status, byName.status, nonsense.status]).to.deep.equal([0, 5, 2]);
      expect(byName.stderr).to.equal("holdfast: there is no gateway vienna-dr\n");
    });

    it("asks for the id when several gateways have the name", async () => {
      const [one, two] = [
        await TestGateway.register(server, { name: "twin", environment: "warsaw" }),
        await TestGateway.register(server, { name: "twin", environment: "zagreb" }),
      ];

      const { status, stderr } = await cli().run("gateway tasks twin");

      expect(status).to.equal(2);
      expect(stderr).to.include("there are several: gateway twin; say which by its id\n");
      expect(stderr)
        .to.include(`  ${one?.id}  primary of warsaw, active\n`)
        .and.to.include(`  ${two?.id}  primary of zagreb`);
    });
  });

  describe("deactivate", () => {
    it("takes a gateway out of service, with a reason, once somebody agrees", async () => {
      const { primary } = await pair("athens");

      const unasked = await cli().run("gateway deactivate athens-primary");
      const before = await primary.heartbeat();
      const shown = await cli().print(["gateway", "deactivate", "athens-primary", "--yes", "--reason", "new disks"]);
      const after = await primary.heartbeat();

      expect(unasked.status).to.equal(2);
      expect(before).to.include({ activationStatus: "active", standDown: false });
      expect(shown)
        .to.match(/^gateway +athens-primary\n/)
        .and.to.match(/\nstatus +standby\n/);
      expect(shown).to.match(/\ndeactivated +\S+Z\n/);
      expect(after).to.include({ activationStatus: "standby", standDown: true });
      const [event] = await server.sql(
        "select reason from audit_event where action = 'gateway.deactivate' and resource_id = $1",
        [primary.id],
      );
      expect(event.reason).to.equal("new disks");
    });

    it("marks a primary as failed that still talks", async () => {
      const { primary } = await pair("berlin");

      const record = await cli().json(`gateway deactivate ${primary.id} --mark-failed --yes`);

      expect(record).to.include({ id: primary.id, activation_status: "failed", holds_lock: false });
    });
  });

  describe("retire", () => {
    it("removes a gateway for good, though not while it is active", async () => {
      const { dr } = await pair("cork");

      const active = await cli().run("gateway retire cork-primary --yes");
      const unasked = await cli().run("gateway retire cork-dr");
      const retired = await cli().run("gateway retire cork-dr --yes");
      const again = await cli().run("gateway retire cork-dr --yes");

      expect([active.status, unasked.status, retired.status, again.status]).to.deep.equal([6, 2, 0, 5]);
      expect(active.stderr).to.include("active");
      expect(retired).to.include({ stdout: "", stderr: "holdfast: retired cork-dr\n" });
      const listed = (await api("GET", "/admin/gateways")).body.map(({ id }: { id: string }) => id);
      expect(listed).not.to.include(dr.id);
    });
  });
});
