import { expect } from "chai";
import { ServerProcess } from "../faults/server-process.ts";
import { useServer } from "../harness/server.ts";
import { useGatewayHost } from "./gateway-host.ts";

describe("A gateway of two replicas", function () {
  // Each test starts programs.
  this.timeout(120_000);
  const server = useServer();
  const host = useGatewayHost(server);
  let replicas: Map<string, ServerProcess>;
  beforeEach(async () => {
    const processes = [1, 2].map(() => new ServerProcess(server.environment(), { args: ["serve", "--only", "api"] }));
    replicas = new Map(await Promise.all(processes.map(async (each) => [await each.ready(), each] as const)));
  });
  afterEach(() => Promise.all([...replicas.values()].map((each) => each.kill())));

  it("goes on with its work when its own is killed, and reports it to the other one", async () => {
    const script = `cat > /dev/null; echo started >> "$1/events"; while test -d "$1" && ! test -e "$1/go"; do sleep 0.1; done`;
    const gateway = await host().startConnected({
      SERVER_URL: [...replicas.keys()].join(","),
      GATEWAY_COMMANDS_FILE: host().commandsFile({ rotate: script }),
    });
    const { server: own } = await gateway.said("connected");
    const { id } = await host().gateway("primary");
    const secret = await host().secret({ driver: "command", settings: { command: "rotate" } });
    await host().rotate(secret);
    await host().written("events");
    const [token] = await server.sql("select fencing_token from environment_lock where holder_id = $1", [id]);

    await replicas.get(own)?.kill();
    const { server: other } = await gateway.said("connected", 1);
    host().write("go", "");

    await gateway.said("done");
    expect(other).not.to.equal(own);
    expect((await host().tasks(secret, () => true)).map(({ status, attempt }) => [status, attempt])).to.deep.equal([
      ["succeeded", 1],
    ]);
    const messages = gateway.entries().map(({ msg }) => msg);
    expect(messages.filter((message) => message === "registered" || message === "standing")).to.have.lengthOf(2);
    expect(messages).not.to.include("abandoned");
    expect(await server.sql("select fencing_token from environment_lock where holder_id = $1", [id])).to.deep.equal([
      token,
    ]);
  });

  it("keeps a report until a server takes it", async () => {
    const script = `cat > /dev/null; echo started >> "$1/events"; while test -d "$1" && ! test -e "$1/go"; do sleep 0.1; done`;
    const gateway = await host().startConnected({
      SERVER_URL: [...replicas.keys()].join(","),
      GATEWAY_COMMANDS_FILE: host().commandsFile({ rotate: script }),
    });
    const { server: own } = await gateway.said("connected");
    const secret = await host().secret({ driver: "command", settings: { command: "rotate" } });
    await host().rotate(secret);
    await host().written("events");

    // Their connections stay, and nobody answers.
    for (const replica of replicas.values()) replica.signal("SIGSTOP");
    host().write("go", "");
    await host().written("events", 2);
    for (const [url, replica] of replicas) replica.signal(url === own ? "SIGKILL" : "SIGCONT");

    await gateway.said("done");
    expect(await host().value(secret)).not.to.equal("first");
  });
});
