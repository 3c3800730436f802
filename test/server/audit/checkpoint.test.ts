import { expect } from "chai";
import { checkpointJob } from "../../../src/server/audit/checkpoint.ts";
import { useServer } from "../../harness/server.ts";
import { newLog, verdictOffline, writeAtOnce } from "./tampering.ts";

const server = useServer();

/** The lines that a run of the job logs, by organization. */
async function checkpoints(): Promise<Map<string, Record<string, unknown>>> {
  const before = server.log.length;
  await checkpointJob(server.server.core).run({});
  const lines = server.log
    .slice(before)
    .split("\n")
    .filter((line) => line.includes("audit log checkpoint"));
  return new Map(lines.map((line) => [JSON.parse(line).organization_id, JSON.parse(line)]));
}

describe("The checkpoints of the audit log", () => {
  it("say for each organization what verify answers, so that a line can be kept instead of the answer", async () => {
    const logs = [await newLog(server), await newLog(server)];
    for (const log of logs) await writeAtOnce(log);

    const lines = await checkpoints();

    for (const log of logs) {
      const { body } = await log.admin.rest("GET", "/api/v1/audit-logs/verify");
      const line = lines.get(log.organizationId);
      expect(line).to.deep.include({ head: body.head, events: body.checked, chains: body.chains });
      expect(await verdictOffline(server, log, line)).to.equal("intact");
    }
  });

  it("leave out what has not changed for an hour", async () => {
    const [quiet, active] = [await newLog(server), await newLog(server)];
    await server.sql("update audit_chain set written_at = now() - interval '2 hours' where organization_id = $1", [
      quiet.organizationId,
    ]);

    const lines = await checkpoints();

    expect(lines.has(quiet.organizationId)).to.equal(false);
    expect(lines.has(active.organizationId)).to.equal(true);
  });
});
