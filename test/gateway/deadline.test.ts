import { expect } from "chai";
import { eventually } from "../harness/program.ts";
import { useServer } from "../harness/server.ts";
import { useGatewayHost } from "./gateway-host.ts";

describe("A task that takes too long", function () {
  // The test starts programs.
  this.timeout(120_000);
  const server = useServer({ TASK_TIMEOUT_SECONDS: "2" });
  const host = useGatewayHost(server);

  it("is given up by the gateway, leaves no process, and is tried again with the same value", async () => {
    const script = `cat >> "$1/inputs"; echo $$ >> "$1/pids"; test "$(wc -l < "$1/pids")" -gt 1 || sleep 600`;
    const gateway = await host().startConnected({ GATEWAY_COMMANDS_FILE: host().commandsFile({ rotate: script }) });
    const secret = await host().secret({ driver: "command", settings: { command: "rotate" } });

    await host().rotate(secret);
    await gateway.said("timed out");
    await gateway.said("done");

    const tasks = await host().tasks(secret, () => true);
    expect(tasks.map(({ status, attempt }) => [status, attempt])).to.deep.equal([
      ["timed_out", 1],
      ["succeeded", 2],
    ]);
    const inputs = host()
      .lines("inputs")
      .map((line) => JSON.parse(line));
    expect(inputs.map(({ action, attempt }) => [action, attempt])).to.deep.equal([
      ["apply", 1],
      ["apply", 2],
      ["verify", 2],
    ]);
    expect(new Set(inputs.map(({ value }) => value)).size).to.equal(1);
    const [pid] = host().lines("pids");
    await eventually("the end of the first command", () => {
      try {
        process.kill(Number(pid), 0);
        return undefined;
      } catch {
        return true;
      }
    });
  });
});
