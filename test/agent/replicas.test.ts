import { expect } from "chai";
import { ServerProcess } from "../faults/server-process.ts";
import { newKeytab } from "../harness/keytabs.ts";
import { eventually } from "../harness/program.ts";
import { useServer } from "../harness/server.ts";
import { useAgentHost } from "./agent-host.ts";

describe("An agent of two replicas", function () {
  // Each test starts three programs.
  this.timeout(120_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  const host = useAgentHost();
  let replicas: Map<string, ServerProcess>;
  beforeEach(async () => {
    const processes = [1, 2].map(() => new ServerProcess(server.environment(), { args: ["serve", "--only", "api"] }));
    replicas = new Map(await Promise.all(processes.map(async (each) => [await each.ready(), each] as const)));
  });
  afterEach(() => Promise.all([...replicas.values()].map((each) => each.kill())));

  const urls = () => [...replicas.keys()].join(",");
  const replicaAt = (url: string) => replicas.get(url) as ServerProcess;
  const importAt = (url: string, id: string) =>
    server.login(server.clientId, server.clientSecret, url).then((client) => {
      return client.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
    });

  it("reaches the other one within five seconds when its own is killed", async () => {
    const agent = await host().startEnrolled(server, { SERVER_URL: urls() });
    const { server: own } = await agent.said("connected");

    const killedAt = Date.now();
    await replicaAt(own).kill();
    const { server: other, time } = await agent.said("connected", 1);

    expect(other).not.to.equal(own);
    expect(Date.parse(time) - killedAt).to.be.lessThan(5000);
  });

  it("answers an import that waits at another replica when its own is killed", async () => {
    const path = host().write("http.keytab", newKeytab());
    const agent = await host().startEnrolled(server, { SERVER_URL: urls() });
    const { server: own } = await agent.said("connected");
    const { id } = await host().recordOf(server.admin, path);

    agent.child.kill("SIGSTOP");
    const importing = importAt(server.url, id);
    await eventually("the request", async () => (await server.sql("select 1 from agent_command"))[0]);
    await replicaAt(own).kill();
    agent.child.kill("SIGCONT");

    expect((await importing).status).to.equal(201);
    expect(await host().recordOf(server.admin, path)).to.include({ state: "imported" });
  });

  it("leaves either a keytab with its record or neither when the replica that imports is killed", async () => {
    const path = host().write("http.keytab", newKeytab({ principal: "HTTP/torn.example.com" }));
    const agent = await host().startEnrolled(server, { SERVER_URL: urls() });
    const { server: own } = await agent.said("connected");
    const { id } = await host().recordOf(server.admin, path);

    agent.child.kill("SIGSTOP");
    const importing = importAt(own, id).catch(() => undefined);
    await eventually("the request", async () => (await server.sql("select 1 from agent_command"))[0]);
    await replicaAt(own).kill();
    agent.child.kill("SIGCONT");
    await importing;
    await agent.said("connected", 1);

    const { state, managed_keytab_id: managed } = await host().recordOf(server.admin, path);
    const keytabs = (await server.admin.rest("GET", "/api/v1/keytabs?principal=HTTP/torn")).body.total;
    expect({ state, managed, keytabs }).to.deep.equal({ state: "discovered", managed: null, keytabs: 0 });
    expect((await importAt(server.url, id)).status).to.equal(201);
  });
});
