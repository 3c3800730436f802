import { expect } from "chai";
import { eventually } from "../harness/program.ts";
import { useServer } from "../harness/server.ts";
import { useGatewayHost } from "./gateway-host.ts";

/** Whether a process runs; one that has ended and was not waited for does not. */
const isRunning = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const gone = (pid: number) => eventually(`the end of process ${pid}`, () => (isRunning(pid) ? undefined : true));

describe("A gateway that is told to stop", function () {
  // Each test starts programs.
  this.timeout(120_000);
  const server = useServer();
  const host = useGatewayHost(server);

  /** A gateway, amid a command that runs until it is let go on. */
  async function startBusy() {
    const script = `cat > /dev/null; echo $$ >> "$1/pids"; while test -d "$1" && ! test -e "$1/go"; do sleep 0.1; done`;
    const commands = host().commandsFile({ rotate: script });
    const gateway = await host().startConnected({ GATEWAY_COMMANDS_FILE: commands, GATEWAY_CONCURRENCY: "1" });
    const rotation = { driver: "command", settings: { command: "rotate" } };
    const [first, second] = [await host().secret(rotation), await host().secret(rotation)];
    for (const secret of [first, second]) await host().rotate(secret);
    const [pid] = await host().written("pids");
    return { gateway, first, second, pid: Number(pid) };
  }

  it("lets what runs come to its end and reports it, and takes nothing more", async () => {
    const { gateway, first, second } = await startBusy();
    const { port } = await gateway.said("listening");

    gateway.child.kill("SIGTERM");
    await eventually("a gateway that is not ready", async () => {
      const { status } = await fetch(`http://127.0.0.1:${port}/ready`);
      return status === 503 || undefined;
    });
    host().write("go", "");

    expect(await gateway.ended).to.equal(0);
    const [done] = await host().tasks(first, () => true);
    const [left] = await host().tasks(second, () => true);
    expect([done?.["status"], left?.["status"]]).to.deep.equal(["succeeded", "pending"]);
    expect(gateway.entries().at(-1)).to.include({ msg: "stopped" });
  });

  it("abandons after ten seconds what has not ended, and leaves no process", async () => {
    const { gateway, first, pid } = await startBusy();

    expect(await gateway.end("SIGTERM")).to.equal(0);

    await gone(pid);
    expect(await gateway.said("abandoned")).to.include({ key: first.key });
    expect((await host().tasks(first, () => true))[0]).to.include({ status: "running" });
  });

  it("ends at once when it is told again, and leaves no process", async () => {
    const { gateway, pid } = await startBusy();
    const { port } = await gateway.said("listening");
    gateway.child.kill("SIGTERM");
    await eventually("a gateway that is not ready", async () => {
      const { status } = await fetch(`http://127.0.0.1:${port}/ready`);
      return status === 503 || undefined;
    });

    expect(await gateway.end("SIGTERM")).to.equal(143);

    await gone(pid);
    expect(gateway.output).not.to.include("abandoned");
  });
});
