import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Proxy } from "../agent/proxy.ts";
import type { Client } from "../harness/client.ts";
import { eventually, type Program } from "../harness/program.ts";
import { useServer } from "../harness/server.ts";
import { useGatewayHost } from "./gateway-host.ts";

const leaseSeconds = 3;

describe("A gateway that may work no longer", function () {
  // Each test starts programs, and waits until they have been silent for long.
  this.timeout(120_000);
  const server = useServer({
    HEARTBEAT_TIMEOUT_SECONDS: `${leaseSeconds}`,
    GATEWAY_VERIFY_INTERVAL_SECONDS: "0",
  });
  const host = useGatewayHost(server);
  let operator: Client;
  before(async () => {
    operator = await server.as("operator", ["gateway:admin"]);
  });

  /** Has the value verified for as long as it may not go on: what comes next is the report. */
  const slowly = `cat > "$1/$$"; grep -q '"action":"apply"' "$1/$$" && exit 0
    echo $$ >> "$1/pids"; while test -d "$1" && ! test -e "$1/go"; do sleep 0.1; done`;
  const letGo = () => host().write("go", "");

  /** A gateway amid a command. */
  async function startBusy(url = server.url) {
    const commands = host().commandsFile({ rotate: slowly });
    const gateway = await host().startConnected({ SERVER_URL: url, GATEWAY_COMMANDS_FILE: commands });
    const secret = await host().secret({ driver: "command", settings: { command: "rotate" } });
    await host().rotate(secret);
    const [pid] = await host().written("pids");
    return { gateway, secret, pid: Number(pid), commands };
  }

  const get = async (gateway: Program, path: string) => {
    const { port } = await gateway.said("listening");
    return fetch(`http://127.0.0.1:${port}${path}`);
  };
  const readiness = async (gateway: Program) => {
    const answer = await get(gateway, "/ready");
    return [answer.status, await answer.json()];
  };
  const activeMetric = async (gateway: Program) =>
    /^holdfast_gateway_active (.)$/m.exec(await (await get(gateway, "/metrics")).text())?.[1];
  const gone = (pid: number) =>
    eventually(`the end of process ${pid}`, () => {
      try {
        process.kill(pid, 0);
        return undefined;
      } catch {
        return true;
      }
    });
  /** Reports that the server refused. */
  const refusedReports = () =>
    server.sql("select action from audit_event where action like 'task.%' and outcome <> 'success'");

  it("reports nothing when it was stopped amid its work and another one has taken over since", async () => {
    const { gateway, secret, commands } = await startBusy();
    const standby = await host().startConnected({ GATEWAY_ROLE: "dr-standby", GATEWAY_COMMANDS_FILE: commands });

    gateway.child.kill("SIGSTOP");
    await host().gateway("primary", ({ activation_status: status }) => status === "failed");
    const activate = `/api/v1/admin/failover/${host().environment}/activate-dr`;
    expect((await operator.rest("POST", activate, {})).status).to.equal(200);
    await standby.said("claimed");
    letGo();
    await standby.said("done");
    const value = await host().value(secret);
    gateway.child.kill("SIGCONT");
    await gateway.said("abandoned");
    await host().gateway("primary", ({ consecutive_failures: failures }) => failures === 0);

    expect(gateway.entries().map(({ msg }) => msg)).not.to.include("done");
    expect(await refusedReports()).to.deep.equal([]);
    expect(await host().value(secret)).to.equal(value);
    const tasks = await host().tasks(secret, () => true);
    expect(tasks.map(({ status, attempt }) => [status, attempt])).to.deep.equal([
      ["timed_out", 1],
      ["succeeded", 2],
    ]);
    expect(await readiness(gateway)).to.deep.equal([200, { status: "ready", activation_status: "failed" }]);
    expect(await activeMetric(gateway)).to.equal("0");
  });

  it("reports nothing when it was stopped for longer than its lease, also if nobody has taken over", async () => {
    const { gateway, secret } = await startBusy();

    gateway.child.kill("SIGSTOP");
    letGo();
    await sleep((leaseSeconds + 1) * 1000);
    gateway.child.kill("SIGCONT");

    expect(await gateway.said("abandoned")).to.include({ key: secret.key });
    await eventually("an active gateway", async () => ((await activeMetric(gateway)) === "1" ? true : undefined));
    expect(gateway.entries().map(({ msg }) => msg)).not.to.include("done");
    expect((await host().tasks(secret, () => true))[0]).to.include({ status: "running" });
  });

  it("ends what it does by itself when no server answers for as long as its lease", async () => {
    const proxy = await Proxy.start(server.url);
    const { gateway, secret, pid } = await startBusy(proxy.url);

    proxy.limit(0);

    await gateway.said("the lease has ended: nothing is done until the server answers");
    expect(await gateway.said("abandoned")).to.include({ key: secret.key });
    await gone(pid);
    expect(await readiness(gateway)).to.deep.equal([503, { status: "not_ready", activation_status: "active" }]);
    expect(await activeMetric(gateway)).to.equal("0");
    await proxy.close();
  });

  it("ends what it does at once when an operator takes it out of service", async () => {
    const { gateway, secret, pid } = await startBusy();
    const { id } = await host().gateway("primary");

    await operator.rest("POST", `/api/v1/admin/gateways/${id}/deactivate`, { reason: "drill" });

    expect(await gateway.said("abandoned")).to.include({ key: secret.key });
    await gone(pid);
    letGo();
    const standings = gateway.entries().filter(({ msg }) => msg === "standing");
    expect(standings.at(-1)).to.include({ activation_status: "standby", stand_down: true });
    expect(await refusedReports()).to.deep.equal([]);
    expect(gateway.output).not.to.include("the lease has ended");
  });
});
