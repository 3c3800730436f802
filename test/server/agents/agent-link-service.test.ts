import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { AgentLinkService } from "../../../gen/ts/holdfast/agents/v1/agent_link_service_pb.ts";
import { KeytabReportService } from "../../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import type { Client } from "../../harness/client.ts";
import { Host, Watch } from "../../harness/host.ts";
import { useServer } from "../../harness/server.ts";
import { statementsOf } from "../secrets/statements.ts";
import { refusalOf } from "./refusal.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const hosts: Host[] = [];
after(() => hosts.forEach((host) => host.close()));

async function enroll(): Promise<Host> {
  const host = await Host.enroll(server);
  hosts.push(host);
  return host;
}

/** How each method of agents ends for a caller, the stream by its first message. */
async function everyMethod(caller: Client): Promise<Record<string, string>> {
  const link = caller.grpc(AgentLinkService);
  const reports = caller.grpc(KeytabReportService);
  const metadata = caller.metadata();
  const watch = new Watch(link.watchCommands({}, metadata));
  const calls = {
    heartbeat: link.heartbeat({}, metadata),
    watch: watch.next(),
    report: reports.reportKeytabs({ scanId: randomUUID() }, metadata),
    upload: reports.uploadKeytab({ requestId: randomUUID(), outcome: { case: "failure", value: "gone" } }, metadata),
  };
  const endings = Object.entries(calls).map(async ([name, call]) => [name, await refusalOf(call)] as const);
  const ended = Object.fromEntries(await Promise.all(endings));
  watch.cancel();
  link.close();
  reports.close();
  return ended;
}

const eachIs = (refusal: string) => ({ heartbeat: refusal, watch: refusal, report: refusal, upload: refusal });

describe("A heartbeat", () => {
  it("says what runs where, and is told when to call again", async () => {
    const host = await enroll();

    const answer = await host.link.heartbeat({ version: "2.0.0", os: "Fedora 44" }, host.client.metadata());

    expect(answer.intervalSeconds).to.equal(30);
    const { body } = await server.admin.rest("GET", `/api/v1/agents/${host.id}`);
    expect(body).to.include({ version: "2.0.0", os: "Fedora 44", status: "online" });
  });

  it("is one statement, and leaves nothing in the audit log", async () => {
    const host = await enroll();
    await host.heartbeat();
    const count = async () => (await server.sql("select count(*)::int as events from audit_event"))[0].events;
    const before = await count();

    const statements = await statementsOf(server, () => host.heartbeat());

    expect(statements.filter((text) => text.includes("agent"))).to.have.length(1);
    expect(await count()).to.equal(before);
  });
});

describe("The methods of agents", () => {
  it("are refused to a disabled agent, and open to it again when it is enabled", async () => {
    const host = await enroll();
    await server.admin.rest("POST", `/api/v1/agents/${host.id}/disable`);

    const disabled = await everyMethod(host.client);
    await server.admin.rest("POST", `/api/v1/agents/${host.id}/enable`);
    const enabled = await everyMethod(host.client);

    expect(disabled).to.deep.equal(eachIs("PERMISSION_DENIED: the agent is disabled"));
    expect(enabled).to.deep.equal({ ...eachIs("ok"), upload: "RESOURCE_NOT_FOUND: request not found" });
  });

  it("are refused to who has the role but never enrolled, and to who lacks it", async () => {
    const neverEnrolled = await server.as("never-enrolled", ["agent"]);
    const lacksRole = await server.as("lacks-role", ["admin"]);

    expect(await everyMethod(neverEnrolled)).to.deep.equal(
      eachIs("PERMISSION_DENIED: the caller is not an enrolled agent"),
    );
    expect(await everyMethod(lacksRole)).to.deep.equal(
      eachIs("PERMISSION_DENIED: permission agent:report is required"),
    );
  });

  it("are refused to who is nobody, and to an agent that is no more", async () => {
    const host = await enroll();
    await server.admin.rest("DELETE", `/api/v1/agents/${host.id}`);

    expect(await everyMethod(server.anonymous)).to.deep.equal(eachIs("AUTH_REQUIRED: authentication is required"));
    expect(await everyMethod(host.client)).to.deep.equal(eachIs("AUTH_INVALID: the token is invalid"));
  });

  it("are recorded when they are refused, as done by an agent, about itself", async () => {
    const host = await enroll();
    await server.admin.rest("POST", `/api/v1/agents/${host.id}/disable`);

    await everyMethod(host.client);

    const events = await server.sql(
      `select action, outcome, actor_type, resource_type, resource_name, reason from audit_event
       where actor_id = $1 and action like 'agent.%' order by action`,
      [host.id],
    );
    const denied = {
      outcome: "denied",
      actor_type: "agent",
      resource_type: "agent",
      resource_name: host.hostname,
      reason: "PERMISSION_DENIED",
    };
    expect(events).to.deep.equal(
      ["agent.heartbeat", "agent.report", "agent.upload_keytab", "agent.watch"].map((action) => ({
        action,
        ...denied,
      })),
    );
  });
});
