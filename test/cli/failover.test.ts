import { expect } from "chai";
import { monitorRound } from "../harness/failover.ts";
import { TestGateway } from "../harness/gateway.ts";
import { useServer } from "../harness/server.ts";
import { gatewaySecret, rotate } from "../server/gateways/rotations.ts";
import { startFront } from "./front.ts";
import { checkedSecret, registerPair } from "./gateways.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast failover", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  const api = (verb: string, path: string, body?: object) => server.admin.rest(verb, `/api/v1${path}`, body);
  const environmentOf = async (name: string) => {
    const { body } = await api("GET", "/admin/gateway-health");
    return body.environments.find(({ environment }: { environment: string }) => environment === name);
  };
  const reasonOf = async (action: string, { id }: TestGateway) =>
    (await server.sql("select reason from audit_event where action = $1 and resource_id = $2", [action, id]))[0]
      ?.reason;

  const pair = (environment: string) => registerPair(server, environment);

  /** An environment of which the primary has been silent until it counted as failed. */
  const withoutPrimary = async (environment: string) => {
    const gateways = await pair(environment);
    await gateways.primary.fallSilent(412);
    await monitorRound(server);
    return gateways;
  };

  /** The same, of which the DR gateway is active. */
  const failedOver = async (environment: string) => {
    const gateways = await withoutPrimary(environment);
    await api("POST", `/admin/failover/${environment}/activate-dr`, {});
    return gateways;
  };

  describe("activate", () => {
    it("shows what would happen, and does nothing unless somebody agrees", async () => {
      await withoutPrimary("lisbon");
      await rotate(server.admin, await gatewaySecret(server, "lisbon"));

      const { status, stdout, stderr } = await cli().run("failover activate lisbon");

      expect({ status, stdout }).to.deep.equal({ status: 2, stdout: "" });
      expect(stderr).to.match(
        /^holdfast: lisbon moves from lisbon-primary \(failed, last heartbeat 6 min 5\d s ago\) to lisbon-dr \(standby, last heartbeat \d+ s ago\)\n/,
      );
      expect(stderr).to.include("\nholdfast: 1 pending and 0 running tasks move; what is running is done again\n");
      expect(stderr).to.include("\nholdfast: rotations: 0 of 1 ready, 1 unchecked\n");
      expect(stderr).to.match(/\nholdfast: there is no terminal to ask on: agree with --yes\n$/);
      expect((await environmentOf("lisbon")).status).to.equal("down");
    });

    it("makes the DR gateway the active one, and says so with the fencing token", async () => {
      const { dr } = await withoutPrimary("madrid");

      const args = ["failover", "activate", "madrid", "--yes", "--reason", "the site burns"];
      const { status, stdout, stderr } = await cli().run(args);

      const { lock } = await environmentOf("madrid");
      expect(status).to.equal(0);
      expect(stdout).to.equal(`DR gateway madrid-dr is active in madrid\nfencing token ${lock.fencing_token}\n`);
      expect(stderr).to.match(/^holdfast: madrid moves from madrid-primary /);
      expect(lock.holder_gateway_id).to.equal(dr.id);
      expect(await reasonOf("gateway.activate_dr", dr)).to.equal("the site burns");
    });

    it("prints with --json what the REST API answers, alone on standard output", async () => {
      await withoutPrimary("oslo");

      const printed = await cli().json("failover activate oslo --yes");

      const { lock } = await environmentOf("oslo");
      expect(printed).to.deep.equal({
        message: "DR gateway oslo-dr is active in oslo",
        fencing_token: lock.fencing_token,
      });
    });

    it("names what would not work on the DR gateway", async () => {
      const { primary, dr } = await pair("paris");
      const id = await checkedSecret(server, dr, "no route to the database");
      await api("POST", `/admin/gateways/${primary.id}/deactivate`, { mark_failed: true });

      const { stderr } = await cli().run("failover activate paris --yes");

      expect(stderr).to.include("holdfast: rotations: 0 of 1 ready, 1 failing\n");
      expect(stderr).to.include(`holdfast: secret ${id} would not work there: no route to the database\n`);
    });

    it("takes the standby that was heard of last, or the one that is named", async () => {
      await withoutPrimary("rome");
      const other = await TestGateway.register(server, { environment: "rome", name: "rome-dr-2", role: "dr-standby" });
      await other.fallSilent(60);
      const third = await TestGateway.register(server, { environment: "rome", name: "rome-dr-3", role: "dr-standby" });
      await third.fallSilent(150);

      const usual = await cli().run("failover activate rome");
      const silent = await cli().run("failover activate rome --yes --gateway rome-dr-3");
      const unknown = await cli().run("failover activate rome --yes --gateway rome-primary");
      const named = await cli().run("failover activate rome --yes --gateway rome-dr-2");

      expect(usual.stderr).to.include(" to rome-dr (standby");
      expect([silent.status, unknown.status, named.status]).to.deep.equal([6, 5, 0]);
      expect(silent.stderr).to.match(
        /^holdfast: DR gateway is no healthy standby: rome-dr-3 \(standby, last heartbeat 2 min \d+ s ago\)\n$/,
      );
      expect(unknown.stderr).to.equal("holdfast: there is no DR gateway rome-primary of rome\n");
      expect((await environmentOf("rome")).active_gateway_id).to.equal(other.id);
    });

    it("takes a gateway that was taken out of service when it is named, and only then", async () => {
      const { dr } = await withoutPrimary("sofia");
      await api("POST", `/admin/gateways/${dr.id}/deactivate`, {});

      const unnamed = await cli().run("failover activate sofia --yes");
      const named = await cli().run(`failover activate sofia --yes --gateway ${dr.id}`);

      expect([unnamed.status, named.status]).to.deep.equal([6, 0]);
      expect(unnamed.stderr).to.equal("holdfast: no DR gateway is a healthy standby\n");
      expect(named.stderr).to.include(" to sofia-dr (standby, deactivated, last heartbeat ");
    });

    it("refuses early, in the words of the server, what it would refuse", async () => {
      const { primary } = await pair("tallinn");
      const healthy = await cli().run("failover activate tallinn --yes");
      const named = await cli().run("failover activate tallinn --yes --gateway tallinn-dr");
      await primary.fallSilent();
      await monitorRound(server);
      await primary.heartbeat();
      const backAgain = await cli().run("failover activate tallinn --yes");
      await failedOver("vienna");
      const already = await cli().run("failover activate vienna --yes");
      await TestGateway.register(server, { environment: "warsaw" });
      const alone = await cli().run("failover activate warsaw --yes");

      const runs = [healthy, named, backAgain, already, alone];
      expect(runs.map(({ status }) => status)).to.deep.equal([6, 6, 6, 6, 6]);
      expect(healthy.stderr).to.match(
        /^holdfast: primary is not in failed state: .*last heartbeat \d+ seconds? ago\n$/,
      );
      expect(named.stderr).to.match(/^holdfast: primary is not in failed state: /);
      expect(backAgain.stderr).to.match(
        /^holdfast: primary is not in failed state: last heartbeat \d+ s ago; use failback\n$/,
      );
      expect(already.stderr).to.equal("holdfast: DR gateway is already active\n");
      expect(alone.stderr).to.match(/^holdfast: .*DR gateway/);
    });

    it("names the environments there are when there is none of that name", async () => {
      await pair("zagreb");

      const { status, stderr } = await cli().run("failover activate zagrev --yes");

      expect(status).to.equal(5);
      expect(stderr).to.match(/^holdfast: no gateway serves an environment zagrev\n/);
      expect(stderr).to.include("\n  zagreb\n");
    });

    it("is for who has the role gateway:admin, and for nobody else", async () => {
      const { token = "" } = await server.as("deputy", ["admin"]);

      const { status } = await cli().run("failover activate zagreb --yes", { env: { HOLDFAST_TOKEN: token } });

      expect(status).to.equal(4);
    });

    it("is not asked for twice when the answer gets lost, and says how to find out what was done", async () => {
      await withoutPrimary("athens");
      let asked = 0;
      const front = await startFront({
        target: server.url,
        intercept: ({ url = "" }, response) => {
          if (!url.endsWith("/ActivateDr")) return false;
          asked += 1;
          response.destroy();
          return true;
        },
      });

      const { status, stderr } = await cli().run("failover activate athens --yes", {
        env: { HOLDFAST_URL: front.url },
      });
      await front.close();

      expect(status).to.equal(8);
      expect(asked).to.equal(1);
      expect(stderr).to.match(
        /\nholdfast: the server cannot be reached: .*\n {2}whether it was done, holdfast gateway status says\n$/,
      );
    });
  });

  describe("failback", () => {
    it("shows what would happen, and returns to the primary once somebody agrees", async () => {
      const { primary } = await failedOver("berlin");
      await primary.heartbeat();

      const unasked = await cli().run("failover failback berlin");
      const before = await environmentOf("berlin");
      const args = ["failover", "failback", "berlin", "--yes", "--reason", "the fire is out"];
      const { status, stdout, stderr } = await cli().run(args);
      const after = await environmentOf("berlin");

      expect(unasked.status).to.equal(2);
      expect(before.status).to.equal("failed_over");
      expect({ status, stdout }).to.deep.equal({
        status: 0,
        stdout: "primary berlin-primary is active in berlin\n",
      });
      expect(stderr).to.match(
        /^holdfast: berlin moves from berlin-dr \(active, last heartbeat \d+ s ago\) to berlin-primary \(failed, last heartbeat \d+ s ago\)\n/,
      );
      expect(after).to.deep.include({ status: "healthy", active_gateway_id: primary.id });
      expect(await reasonOf("gateway.failback", primary)).to.equal("the fire is out");
    });

    it("brings a primary into service that was deactivated, where nobody else is active", async () => {
      const { primary } = await pair("cork");
      await api("POST", `/admin/gateways/${primary.id}/deactivate`, {});

      const { status, stderr } = await cli().run("failover failback cork --yes --json");

      expect(status).to.equal(0);
      expect(stderr).to.match(/^holdfast: cork moves from nobody to cork-primary \(standby, deactivated, /);
    });

    it("refuses early, in the words of the server, what it would refuse", async () => {
      await pair("dublin");
      const already = await cli().run("failover failback dublin --yes");
      await failedOver("essen");
      const silent = await cli().run("failover failback essen --yes");
      await withoutPrimary("faro");
      const down = await cli().run("failover failback faro --yes");
      const unknown = await cli().run("failover failback nowhere --yes");

      expect([already, silent, down, unknown].map(({ status }) => status)).to.deep.equal([6, 6, 6, 5]);
      expect(already.stderr).to.equal("holdfast: primary is already active\n");
      expect(silent.stderr).to.match(/^holdfast: primary has not recovered: last heartbeat .* ago\n$/);
      expect(down.stderr).to.match(/^holdfast: primary has not recovered: last heartbeat 6 min \d+ s ago\n$/);
    });
  });
});
