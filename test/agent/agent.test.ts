import { chmodSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { newKeytab } from "../harness/keytabs.ts";
import { useServer } from "../harness/server.ts";
import { newEnrollmentToken, useAgentHost } from "./agent-host.ts";

describe("holdfast agent", function () {
  // Each test starts a program.
  this.timeout(120_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  const host = useAgentHost();

  const importOf = (id: string) => server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
  async function downloadOf(keytabId: string): Promise<Buffer> {
    const headers = { authorization: `Bearer ${server.admin.token}` };
    const answer = await fetch(`${server.url}/api/v1/keytabs/${keytabId}/download`, { headers });
    return Buffer.from(await answer.arrayBuffer());
  }
  const statusOf = async () => (await server.admin.rest("GET", `/api/v1/agents/${host().agentId}`)).body.status;

  it("enrolls by itself when it is given a token, keeps its credentials from others, and reports what it finds", async () => {
    const path = host().write("web/http.keytab", newKeytab({ principal: "HTTP/web1.example.com", kvno: 4 }), 0o640);

    await host().startEnrolled(server);

    expect((statSync(host().credentialsFile).mode & 0o777).toString(8)).to.equal("600");
    expect((statSync(host().stateFolder).mode & 0o777).toString(8)).to.equal("700");
    expect(await host().recordOf(server.admin, path)).to.include({
      principal: "HTTP/web1.example.com@EXAMPLE.COM",
      kvno: 4,
      file_permissions: "0640",
      state: "discovered",
      agent_id: host().agentId,
    });
    expect(await statusOf()).to.equal("online");
  });

  it("starts again with the credentials that it has, and needs neither token nor URL", async () => {
    const first = await host().startEnrolled(server);
    await first.end("SIGTERM");
    host().write("new.keytab", newKeytab());

    const second = host().start({});

    expect(await second.said("reported")).to.include({ discovered: 1 });
    expect(second.output).not.to.include("enrolled");
  });

  it("uses credentials that it is given", async () => {
    const first = await host().startEnrolled(server);
    await first.end("SIGTERM");
    const { client_id: id, client_secret: secret } = JSON.parse(readFileSync(host().credentialsFile, "utf8"));
    rmSync(host().credentialsFile);

    const second = host().start({ SERVER_URL: server.url, CLIENT_ID: id, CLIENT_SECRET: secret });

    await second.said("reported");
  });

  it("logs no secret", async () => {
    const token = await newEnrollmentToken(server);
    const agent = host().start({ SERVER_URL: server.url, ENROLLMENT_TOKEN: token, LOG_LEVEL: "trace" });
    await agent.said("reported");
    const { client_secret: secret } = JSON.parse(readFileSync(host().credentialsFile, "utf8"));

    await agent.end("SIGTERM");

    expect(agent.output).to.include("enrolled").and.not.include(token).and.not.include(secret);
    // Nor a token, which begins like this.
    expect(agent.output).not.to.include("eyJ");
  });

  it("sees without waiting for the interval that a file has come, has changed, is another one, is gone", async () => {
    await host().startEnrolled(server);
    const recordWith = (isSo: (record: Record<string, unknown>) => boolean) =>
      host().recordOf(server.admin, path, isSo);

    const path = host().write("below/app.keytab", newKeytab());
    const { keytab_hash: first } = await recordWith(({ state }) => state === "discovered");
    writeFileSync(path, newKeytab({ kvno: 2 }));
    const { keytab_hash: second } = await recordWith(({ kvno }) => kvno === 2);
    chmodSync(path, 0o644);
    await recordWith((record) => record["file_permissions"] === "0644");
    renameSync(host().write("below/fresh", newKeytab({ kvno: 3 })), path);
    const { keytab_hash: third } = await recordWith(({ kvno }) => kvno === 3);
    rmSync(path);
    await recordWith(({ state }) => state === "stale");

    expect(new Set([first, second, third]).size).to.equal(3);
  });

  it("sees what comes into a folder that was removed and made again", async () => {
    const path = host().write("below/app.keytab", newKeytab());
    await host().startEnrolled(server);
    rmSync(dirname(path), { recursive: true });
    await host().recordOf(server.admin, path, ({ state }) => state === "stale");

    host().write("below/app.keytab", newKeytab({ kvno: 2 }));
    await host().recordOf(server.admin, path, ({ kvno }) => kvno === 2);
    writeFileSync(path, newKeytab({ kvno: 3 }));

    await host().recordOf(server.admin, path, ({ kvno }) => kvno === 3);
  });

  it("hands over a file that somebody imports, byte by byte", async () => {
    const file = newKeytab({ principal: "HTTP/web2.example.com", enctypes: [18, 17] });
    const path = host().write("http.keytab", file);
    await host().startEnrolled(server);
    const { id } = await host().recordOf(server.admin, path);

    const { status, body: keytab } = await importOf(id);

    expect(status).to.equal(201);
    expect(keytab).to.include({ principal: "HTTP/web2.example.com@EXAMPLE.COM", source: "discovered" });
    expect(await downloadOf(keytab.id)).to.deep.equal(file);
    expect(await host().recordOf(server.admin, path)).to.include({ state: "imported", drifted: false });
  });

  it("tells that an imported file has changed since, and hands over what it has become", async () => {
    const path = host().write("http.keytab", newKeytab());
    await host().startEnrolled(server);
    const { id } = await host().recordOf(server.admin, path);
    await importOf(id);

    writeFileSync(path, newKeytab({ kvno: 2 }));
    await host().recordOf(server.admin, path, ({ drifted }) => drifted);
    const resynced = await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/resync`, {});

    expect(resynced.status).to.equal(200);
    expect(resynced.body).to.include({ version: 2, kvno: 2 });
  });

  it("hands over no file that it did not report", async () => {
    const reported = host().write("http.keytab", newKeytab());
    const agent = await host().startEnrolled(server);
    const { id } = await host().recordOf(server.admin, reported);
    // As a server would that others have taken over.
    await server.sql("update discovered_keytab set file_path = '/etc/shadow' where id = $1", [id]);

    const { status, body } = await importOf(id);

    expect(status).to.equal(409);
    expect(body.error.message).to.include("the file was not reported");
    expect(await agent.said("answered a request for a file")).to.include({ path: "/etc/shadow", outcome: "failure" });
  });

  it("stops when it is disabled, says so once, and neither calls hot nor ends", async () => {
    const agent = await host().startEnrolled(server);
    const id = host().agentId;

    await server.admin.rest("POST", `/api/v1/agents/${id}/disable`, {});
    const { reason, next_try_in_seconds: nextTry } = await agent.said("the server has stopped this agent");
    const before = await server.sql("select last_heartbeat from agent where id = $1", [id]);
    const entries = agent.entries().length;
    host().write("after.keytab", newKeytab());
    await sleep(4000);

    expect(reason).to.equal("the agent is disabled");
    expect(nextTry).to.be.greaterThan(1800);
    expect(await server.sql("select last_heartbeat from agent where id = $1", [id])).to.deep.equal(before);
    expect(agent.entries().length).to.equal(entries);
    expect(await agent.end("SIGTERM")).to.equal(0);
  });

  it("is let in no more when it has been removed, and tries slowly", async () => {
    const agent = await host().startEnrolled(server);

    await server.admin.rest("DELETE", `/api/v1/agents/${host().agentId}`);
    const { next_try_in_seconds: nextTry } = await agent.said("the server refuses the credentials of this agent");

    expect(nextTry).to.be.within(30, 150);
    expect(await agent.end("SIGTERM")).to.equal(0);
  });

  it("waits for a server that is away when it starts", async () => {
    const agent = host().start({ SERVER_URL: "http://127.0.0.1:1", ENROLLMENT_TOKEN: "hfa_none" });

    const { reason, next_try_in_seconds: nextTry } = await agent.said("not connected");

    expect(reason).to.include("ECONNREFUSED");
    expect(nextTry).to.be.lessThan(60);
    expect(await agent.end("SIGINT")).to.equal(0);
  });

  it("tries slowly when its credentials are refused", async () => {
    const agent = host().start({ SERVER_URL: server.url, CLIENT_ID: "nobody", CLIENT_SECRET: "nothing at all" });

    const { reason, next_try_in_seconds: nextTry } = await agent.said(
      "the server refuses the credentials of this agent",
    );

    expect(reason).to.equal("client id or secret is wrong");
    expect(nextTry).to.be.within(30, 90);
  });

  it("ends on SIGTERM with status 0, also while it is connected", async () => {
    const agent = await host().startEnrolled(server);

    expect(await agent.end("SIGTERM")).to.equal(0);
    expect(agent.entries().at(-1)).to.include({ msg: "stopped" });
  });

  it("says what it cannot read when that is new, and not with every scan", async () => {
    // Also root cannot read what is no keytab.
    host().write("broken.keytab", Buffer.from([5, 2, 0, 0, 0, 1, 0]));
    const agent = await host().startEnrolled(server);

    host().write("another.keytab", newKeytab());
    await agent.said("reported", 1);

    const told = agent.entries().filter(({ path, msg }) => msg === "cannot be read" && path?.endsWith("broken.keytab"));
    expect(told.length).to.equal(1);
    expect(told[0]?.["reason"]).to.be.a("string");
  });

  const faults: [string, Record<string, string>, string][] = [
    ["no server", { CLIENT_ID: "a", CLIENT_SECRET: "b" }, "SERVICE_SERVER_URL"],
    ["neither credentials nor a token", { SERVER_URL: "http://127.0.0.1:1" }, "not enrolled"],
    ["a bad setting", { SERVER_URL: "http://127.0.0.1:1", AGENT_SCAN_INTERVAL_SECONDS: "1" }, "AGENT_SCAN_INTERVAL"],
  ];
  for (const [what, settings, named] of faults) {
    it(`does not start with ${what}, and says so in a line`, async () => {
      const agent = host().start(settings);

      expect(await agent.ended).to.equal(2);
      expect(agent.output).to.include(named);
      expect(agent.output.trim().split("\n").length).to.equal(1);
    });
  }

  it("does not start with credentials that others can read", async () => {
    await (await host().startEnrolled(server)).end("SIGTERM");
    chmodSync(host().credentialsFile, 0o644);

    const agent = host().start({});

    expect(await agent.ended).to.equal(2);
    expect(agent.output).to.include("can be read by other users");
  });
});
