import { chmodSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { hostname } from "node:os";
import { expect } from "chai";
import { version } from "../../src/version.ts";
import { eventually } from "../harness/program.ts";
import { useServer } from "../harness/server.ts";
import { useGatewayHost } from "./gateway-host.ts";

describe("holdfast gateway", function () {
  // Each test starts programs.
  this.timeout(120_000);
  const server = useServer({ HEARTBEAT_TIMEOUT_SECONDS: "20", GATEWAY_VERIFY_INTERVAL_SECONDS: "1" });
  const host = useGatewayHost(server);

  it("registers, is the active one, and says how it is", async () => {
    const about = { GATEWAY_NAME: "gw-1", GATEWAY_REGION: "eu-west-1", GATEWAY_MANAGED_IDENTITY_CLIENT_ID: "cloud-1" };

    const gateway = await host().startConnected(about);

    expect(await host().gateway("primary")).to.include({
      name: "gw-1",
      activation_status: "active",
      holds_lock: true,
      hostname: hostname(),
      version,
      region: "eu-west-1",
      identity_client_id: "cloud-1",
    });
    expect(await gateway.said("standing")).to.include({ activation_status: "active", stand_down: false });
  });

  it("goes on saying that it is there", async () => {
    await host().startConnected();
    const { last_heartbeat: first } = await host().gateway("primary");

    await host().gateway("primary", (record) => record["last_heartbeat"] > first);
  });

  it("rotates a value that is used nowhere else", async () => {
    await host().startConnected();
    const secret = await host().secret();

    await host().rotate(secret);
    const [task] = await host().tasks(secret, ([first]) => first?.["status"] === "succeeded");

    expect(task).to.include({ type: "rotate_secret", attempt: 1 });
    expect(await host().value(secret)).not.to.equal("first");
  });

  it("takes tasks that waited for it", async () => {
    const secret = await host().secret();
    await host().rotate(secret);

    await host().startConnected();

    await host().tasks(secret, ([task]) => task?.["status"] === "succeeded");
  });

  it("applies and verifies a value by a command", async () => {
    const commands = host().commandsFile({ rotate: 'cat >> "$1/inputs"' });
    await host().startConnected({ GATEWAY_COMMANDS_FILE: commands });
    const settings = { command: "rotate", parameters: { port: 5432 } };
    const secret = await host().secret({ driver: "command", settings, credentials: { user: "root" } });

    const { task_id: taskId } = await host().rotate(secret);
    await host().tasks(secret, ([task]) => task?.["status"] === "succeeded");

    const [apply, verify] = host()
      .lines("inputs")
      .map((line) => JSON.parse(line));
    expect(apply).to.deep.equal({
      action: "apply",
      task_id: taskId,
      attempt: 1,
      secret_id: secret.id,
      key: secret.key,
      environment: host().environment,
      value: await host().value(secret),
      previous_value: "first",
      earlier_candidates: [],
      parameters: { port: 5432 },
      credentials: { user: "root" },
    });
    expect(verify).to.deep.equal({ ...apply, action: "verify" });
  });

  it("tries a command that fails three times, with the same value, and tells why", async () => {
    const script = 'cat >> "$1/inputs"; echo "no route to db1" >&2; exit 1';
    await host().startConnected({ GATEWAY_COMMANDS_FILE: host().commandsFile({ rotate: script }) });
    const secret = await host().secret({ driver: "command", settings: { command: "rotate" } });

    await host().rotate(secret);
    const tasks = await host().tasks(secret, (all) => all.filter(({ status }) => status === "failed").length === 3);

    expect(tasks.map(({ attempt }) => attempt)).to.deep.equal([1, 2, 3]);
    expect(tasks.map(({ error }) => error)).to.deep.equal(
      Array(3).fill("the command ended with status 1: no route to db1"),
    );
    expect(
      new Set(
        host()
          .lines("inputs")
          .map((line) => JSON.parse(line).value),
      ).size,
    ).to.equal(1);
    expect(await host().value(secret)).to.equal("first");
  });

  it("does not try again what fails for good", async () => {
    const gateway = await host().startConnected();
    const secret = await host().secret({ driver: "command", settings: { command: "rotate" } });

    await host().rotate(secret);
    const tasks = await host().tasks(secret, ([first]) => first?.["status"] === "failed");

    expect(tasks.map(({ error }) => error)).to.deep.equal(["the command rotate is not allowed on this gateway"]);
    expect(await gateway.said("failed")).to.include({ permanent: true, driver: "command", key: secret.key });
  });

  describe("with a webhook", () => {
    const bodies: Record<string, unknown>[] = [];
    const receiver = createHttpServer((request, response) => {
      void request.toArray().then((chunks) => {
        bodies.push(JSON.parse(Buffer.concat(chunks).toString()));
        response.end('{"value":"minted by the target"}');
      });
    });
    let url: string;
    before(async () => {
      await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
      url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    });
    beforeEach(() => bodies.splice(0));
    after(() => receiver.close());

    it("pushes the value, and asks whether it is in use", async () => {
      await host().startConnected({ OUTBOUND_ALLOWED_CIDRS: "127.0.0.0/8" });
      const secret = await host().secret({ driver: "webhook", settings: { url } });

      await host().rotate(secret);
      await host().tasks(secret, ([task]) => task?.["status"] === "succeeded");

      const value = await host().value(secret);
      expect(bodies.map((body) => [body["event"], body["value"]])).to.deep.equal([
        ["rotation.apply", value],
        ["rotation.verify", value],
      ]);
    });

    it("takes the value that the target makes", async () => {
      await host().startConnected({ OUTBOUND_ALLOWED_CIDRS: "127.0.0.0/8" });
      const secret = await host().secret({ driver: "webhook", settings: { url, mode: "mint" } });

      await host().rotate(secret);
      await host().tasks(secret, ([task]) => task?.["status"] === "succeeded");

      expect(await host().value(secret)).to.equal("minted by the target");
    });

    it("sends nothing to this machine unless that is allowed", async () => {
      await host().startConnected();
      const secret = await host().secret({ driver: "webhook", settings: { url } });

      await host().rotate(secret);
      const [task] = await host().tasks(secret, ([first]) => first?.["status"] === "failed");

      expect(task?.["error"]).to.equal("the webhook: 127.0.0.1 is at no address that may be sent to");
      expect(bodies).to.deep.equal([]);
    });
  });

  it("does no more at once than it is told", async () => {
    const script = `cat > /dev/null; echo start >> "$1/events"; sleep 0.3; echo end >> "$1/events"`;
    const secrets = await Promise.all(
      Array.from({ length: 6 }, () => host().secret({ driver: "command", settings: { command: "rotate" } })),
    );
    await Promise.all(secrets.map((secret) => host().rotate(secret)));

    const commands = host().commandsFile({ rotate: script });
    await host().startConnected({ GATEWAY_COMMANDS_FILE: commands, GATEWAY_CONCURRENCY: "2" });
    for (const secret of secrets) await host().tasks(secret, ([task]) => task?.["status"] === "succeeded");

    let [running, most] = [0, 0];
    for (const event of host().lines("events")) {
      running += event === "start" ? 1 : -1;
      most = Math.max(most, running);
    }
    // Each is applied and verified.
    expect({ most, events: host().lines("events").length }).to.deep.equal({ most: 2, events: 24 });
  });

  it("stays connected, and claims nothing for a while, when it exceeds the limit of requests", async () => {
    const secrets = await Promise.all(Array.from({ length: 10 }, () => host().secret()));
    await Promise.all(secrets.map((secret) => host().rotate(secret)));

    const gateway = await host().startConnected(await host().identity({ rate_limit_per_minute: 9 }));
    const { port } = await gateway.said("listening");
    const { reason } = await gateway.said("no task could be claimed");
    await eventually("a heartbeat that was refused", async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      return text.includes('heartbeats_total{outcome="failed"}') || undefined;
    });

    expect(reason).to.include("limit");
    const messages = gateway.entries().map(({ msg }) => msg);
    expect(messages.filter((message) => message === "no task could be claimed").length).to.equal(1);
    expect(messages).not.to.include("not connected");
    expect((await fetch(`http://127.0.0.1:${port}/ready`)).status).to.equal(200);
  });

  it("as a standby checks, and does not rotate", async () => {
    const commands = host().commandsFile({ rotate: 'cat >> "$1/inputs"' });
    await host().startConnected();
    const standby = await host().startConnected({ GATEWAY_ROLE: "dr-standby", GATEWAY_COMMANDS_FILE: commands });
    const secret = await host().secret({ driver: "command", settings: { command: "rotate" } });

    const claimed = await standby.said("claimed");
    await standby.said("done");

    expect(claimed).to.include({ type: "verify_secret", key: secret.key });
    expect(
      host()
        .lines("inputs")
        .map((line) => JSON.parse(line).action),
    ).to.deep.equal(["verify"]);
    expect(JSON.parse(host().lines("inputs")[0] ?? "").value).to.equal("first");
  });

  it("answers probes and Prometheus", async () => {
    const gateway = await host().startConnected();
    const { port } = await gateway.said("listening");
    const get = (path: string, init: RequestInit = {}) => fetch(`http://127.0.0.1:${port}${path}`, init);
    const secret = await host().secret();
    await host().rotate(secret);
    await gateway.said("done");

    const live = await get("/live");
    const ready = await get("/ready");
    const metrics = await eventually("the metrics", async () => {
      const text = await (await get("/metrics")).text();
      return text.includes('tasks_total{type="rotate_secret",outcome="succeeded"} 1') ? text : undefined;
    });

    expect([live.status, await live.json()]).to.deep.equal([200, { status: "alive" }]);
    expect([ready.status, await ready.json()]).to.deep.equal([200, { status: "ready", activation_status: "active" }]);
    expect(metrics)
      .to.match(/^holdfast_gateway_active 1$/m)
      .and.match(/^holdfast_gateway_connected 1$/m)
      .and.match(/^holdfast_gateway_tasks_running 0$/m)
      .and.match(/^holdfast_gateway_task_duration_seconds_count\{type="rotate_secret"\} 1$/m)
      .and.match(/^holdfast_gateway_heartbeats_total\{outcome="ok"\} [1-9]/m)
      .and.match(/^holdfast_gateway_lease_seconds_remaining (1\d|20)(\.|$)/m)
      .and.include(`holdfast_gateway_build_info{version="${version}"} 1`);
    expect((await get("/nothing")).status).to.equal(404);
    expect((await get("/ready", { method: "POST" })).status).to.equal(405);
    expect(await (await get("/metrics", { method: "HEAD" })).text()).to.equal("");
  });

  it("is not ready before a server has let it in", async () => {
    const gateway = await host().start({ SERVER_URL: "http://127.0.0.1:1" });
    const { port } = await gateway.said("listening");
    const { reason } = await gateway.said("not connected");

    const ready = await fetch(`http://127.0.0.1:${port}/ready`);

    expect(reason).to.include("ECONNREFUSED");
    expect([ready.status, await ready.json()]).to.deep.equal([503, { status: "not_ready", activation_status: null }]);
    expect((await fetch(`http://127.0.0.1:${port}/live`)).status).to.equal(200);
    expect(await gateway.end("SIGTERM")).to.equal(0);
  });

  it("logs and exposes no secret", async () => {
    const commands = host().commandsFile({ rotate: 'cat >> "$1/inputs"; cat "$1/inputs" >&2; exit 1' });
    const identity = await host().identity();
    const gateway = await host().startConnected({ ...identity, GATEWAY_COMMANDS_FILE: commands, LOG_LEVEL: "trace" });
    const credentials = { password: "credential-of-the-target" };
    const secret = await host().secret({
      driver: "command",
      settings: { command: "rotate" },
      credentials,
      value: "the-value-before",
    });

    await host().rotate(secret);
    const tasks = await host().tasks(secret, (all) => all.filter(({ status }) => status === "failed").length === 3);
    await gateway.end("SIGTERM");

    const { value } = JSON.parse(host().lines("inputs")[0] ?? "{}");
    const told = `${gateway.output}${JSON.stringify(tasks)}`;
    expect(told).to.include("[redacted]");
    for (const hidden of [value, "the-value-before", "credential-of-the-target", identity.CLIENT_SECRET, "eyJ"]) {
      expect(hidden.length).to.be.greaterThan(2);
      expect(told).not.to.include(hidden);
    }
  });

  it("is refused as a second primary, says so, and tries slowly", async () => {
    await host().startConnected();

    const second = await host().start();

    const { reason, next_try_in_seconds: nextTry } = await second.said("the server refuses this gateway");
    expect(reason).to.include("primary");
    expect(nextTry).to.be.within(30, 90);
  });

  it("is refused with credentials that are wrong, says so, and tries slowly", async () => {
    const gateway = await host().start({ CLIENT_ID: "nobody", CLIENT_SECRET: "nothing at all" });

    const { next_try_in_seconds: nextTry } = await gateway.said("the server refuses the credentials of this gateway");

    expect(nextTry).to.be.within(30, 90);
  });

  it("ends when another process registers as the same gateway, so that the two do not take turns", async () => {
    const settings = { ...(await host().identity()), GATEWAY_NAME: "gw-1" };
    const first = await host().startConnected(settings);

    const second = await host().startConnected(settings);

    expect(await first.ended).to.equal(3);
    expect(first.output).to.include("holdfast: another instance of this gateway has registered");
    const secret = await host().secret();
    await host().rotate(secret);
    await second.said("done");
  });

  it("ends with status 3 also when it was away while the other one registered", async () => {
    const settings = { ...(await host().identity()), GATEWAY_NAME: "gw-1" };
    const first = await host().startConnected(settings);
    first.child.kill("SIGSTOP");
    const second = await host().startConnected(settings);

    first.child.kill("SIGCONT");

    expect(await first.ended).to.equal(3);
    expect(second.child.exitCode).to.equal(null);
    expect(await host().gateway("primary")).to.include({ activation_status: "active" });
  });

  const faults: [string, Record<string, string>, string][] = [
    ["no environment", { GATEWAY_ENVIRONMENT: "" }, "SERVICE_GATEWAY_ENVIRONMENT"],
    ["another role", { GATEWAY_ROLE: "main" }, "SERVICE_GATEWAY_ROLE"],
    ["no credentials", { CLIENT_ID: "", CLIENT_SECRET: "" }, "SERVICE_CLIENT_ID"],
    ["commands that are not there", { GATEWAY_COMMANDS_FILE: "/nowhere" }, "SERVICE_GATEWAY_COMMANDS_FILE"],
  ];
  for (const [what, settings, named] of faults) {
    it(`does not start with ${what}, and says so in a line`, async () => {
      const gateway = await host().start({ CLIENT_ID: "a", CLIENT_SECRET: "b", ...settings });

      expect(await gateway.ended).to.equal(2);
      expect(gateway.output).to.include(named);
      expect(gateway.output.trim().split("\n").length).to.equal(1);
    });
  }

  it("does not start with commands that others can change", async () => {
    const path = host().write("commands.json", "{}");
    chmodSync(path, 0o666);

    const gateway = await host().start({ GATEWAY_COMMANDS_FILE: path });

    expect(await gateway.ended).to.equal(2);
    expect(gateway.output).to.include("can be changed by other users").and.include("chmod");
  });

  it("does not start where something else listens already, and may be started again", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    const { port } = other.address() as AddressInfo;

    const gateway = await host().start({ GATEWAY_PORT: `${port}` });

    expect(await gateway.ended).to.equal(1);
    expect(gateway.output).to.include(`cannot listen at 127.0.0.1:${port} (EADDRINUSE)`);
    other.close();
  });

  it("listens nowhere when it is told so", async () => {
    const gateway = await host().startConnected({ GATEWAY_PORT: "off" });

    expect(gateway.output).not.to.include("listening");
  });
});
