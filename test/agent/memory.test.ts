import { existsSync, readFileSync } from "node:fs";
import { expect } from "chai";
import { newKeytab } from "../harness/keytabs.ts";
import { eventually } from "../harness/program.ts";
import { useServer } from "../harness/server.ts";
import { useAgentHost } from "./agent-host.ts";

const mostMebibytes = 80;

const hasStatus = existsSync("/proc/self/status");
const describeOnLinux = hasStatus ? describe : describe.skip;
if (!hasStatus) console.log("the memory of an agent is not tested: only Linux says how much a process takes");

describeOnLinux("An agent that idles", function () {
  // It starts a program.
  this.timeout(120_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  const host = useAgentHost();

  it(`takes no more than ${mostMebibytes} MiB after a scan of 20 keytabs, with its stream open`, async () => {
    for (let index = 0; index < 20; index += 1) host().write(`${index}.keytab`, newKeytab());
    const agent = await host().startEnrolled(server);
    // The folders that it watches only now are scanned once more.
    await agent.said("scanned", 1);

    const resident = await eventually("little memory", () => {
      const [, kibibytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${agent.pid}/status`, "utf8")) ?? [];
      return Number(kibibytes) <= mostMebibytes * 1024 ? Number(kibibytes) : undefined;
    });

    expect(readFileSync(`/proc/${agent.pid}/cmdline`, "utf8")).to.include("agent/main.ts");
    expect(resident).to.be.greaterThan(0);
  });
});
