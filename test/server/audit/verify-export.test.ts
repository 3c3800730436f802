import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { readCheckpoint, UnreadableExport, verifyExport } from "../../../src/server/audit/verify-export.ts";
import { hashOf, headOf, organizationChainKey, startOfChain } from "../../../src/standards/audit-chain.ts";

const [key, otherKey] = ["0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55", "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f56"].map((id) =>
  organizationChainKey(Buffer.alloc(32, 7), id),
) as [ReturnType<typeof organizationChainKey>, ReturnType<typeof organizationChainKey>];

/** The lines of an export with so many events in each chain. */
function linesOf(lengths: readonly number[], name = "DB_PASSWORD"): string[] {
  return lengths.flatMap((length, at) => {
    const chain = at + 1;
    let previousHash = startOfChain(key, chain);
    return Array.from({ length }, (_, index) => {
      const details = { version: index, list: [1.5, null, { a: "b" }], "10": true, "2": false };
      const event = {
        id: `event-${chain}-${index}`,
        occurredAt: "2026-01-02T03:04:05.678Z",
        action: "secret.read_value",
        outcome: "success",
        actorType: "user",
        actorId: null,
        actorName: "Zoë \u{1f511}",
        resourceType: "secret",
        resourceId: "s",
        resourceName: name,
        projectId: null,
        reason: "",
        requestId: null,
        sourceIp: null,
        userAgent: null,
        details: JSON.stringify(details),
      };
      const hash = hashOf(key, previousHash, event);
      const { occurredAt, projectId, requestId, sourceIp, userAgent, id, action, outcome, reason } = event;
      const line = JSON.stringify({
        id,
        occurred_at: occurredAt,
        action,
        outcome,
        actor: { type: event.actorType, id: event.actorId, name: event.actorName },
        resource: { type: event.resourceType, id: event.resourceId, name: event.resourceName },
        project_id: projectId,
        reason,
        request_id: requestId,
        source_ip: sourceIp,
        user_agent: userAgent,
        details,
        chain,
        sequence: index + 1,
        previous_hash: previousHash,
        hash,
      });
      previousHash = hash;
      return line;
    });
  });
}

describe("verifyExport", () => {
  let folder: string;
  let file: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "holdfast-export-"));
    file = join(folder, "export.ndjson");
  });
  after(() => rm(folder, { recursive: true }));

  const verify = async (text: string, keys = [otherKey, key], checkpoint = "") => {
    await writeFile(file, text);
    return verifyExport(file, keys, checkpoint === "" ? [] : readCheckpoint(checkpoint));
  };
  const refusal = (work: Promise<unknown>) =>
    work.then(
      () => "accepted",
      (error: Error) => (error instanceof UnreadableExport ? error.message : String(error)),
    );

  it("accepts an export as it was written, and says how far its chains go", async () => {
    const lines = linesOf([1500, 3, 7]);

    const report = await verify(`${lines.join("\n")}\n`);

    const { chains, ...rest } = report;
    expect(rest).to.deep.equal({ valid: true, checked: 1510, broken: undefined, head: headOf(chains) });
    expect(chains.map(({ chain, length }) => [chain, length])).to.deep.equal([
      [1, 1500],
      [2, 3],
      [3, 7],
    ]);
  });

  it("accepts chains in any order, the last line without an end, and names with separators of lines", async () => {
    const lines = linesOf([3, 2], "before\u2028after\u2029\u0085 \r end");

    expect(await verify([...lines.slice(3), ...lines.slice(0, 3)].join("\n"))).to.include({ valid: true, checked: 5 });
  });

  it("names what was changed, also where that is nested", async () => {
    const text = linesOf([4]).join("\n");

    expect((await verify(text.replace('"version":2', '"version":3'))).broken).to.deep.equal({
      chain: 1,
      sequence: 3,
      reason: "changed",
    });
    expect((await verify(text.replace('"reason":""', '"reason":null'))).broken).to.include({ sequence: 1 });
  });

  it("takes for a checkpoint what verify answers, and what the server logs every hour", async () => {
    const lines = linesOf([4, 2]);
    const { chains, head } = await verify(lines.join("\n"));
    const shorter = [...lines.slice(0, 3), ...lines.slice(4)].join("\n");
    const answer = JSON.stringify({ valid: true, checked: 6, broken_at: null, head, chains });
    const logged = JSON.stringify({ level: 30, msg: "audit log checkpoint", events: 6, head, chains: [chains[0]] });

    expect((await verify(shorter)).valid).to.equal(true);
    for (const checkpoint of [answer, logged]) {
      expect((await verify(shorter, [key], checkpoint)).broken).to.deep.equal({
        chain: 1,
        sequence: 4,
        reason: "missing",
      });
      expect((await verify(lines.join("\n"), [key], checkpoint)).valid).to.equal(true);
    }
  });

  it("refuses what is no export of this installation, and says where", async () => {
    const [line = "", ...rest] = linesOf([3]);
    const cut = [line, ...rest].join("\n").slice(0, -20);

    expect(await refusal(verify(line, [otherKey]))).to.match(/no event .* key of this installation/);
    expect(await refusal(verify(""))).to.match(/no event .* key of this installation/);
    expect(await refusal(verify(`${line}\n{"id":"x"}`))).to.match(/^line 2 of .*export.ndjson is no event/);
    expect(await refusal(verify(cut))).to.match(/^line 3 of /);
    expect(await refusal(verify("<html>"))).to.match(/^line 1 of /);
    expect(() => readCheckpoint("{}")).to.throw(UnreadableExport);
    expect(() => readCheckpoint("not JSON")).to.throw(UnreadableExport);
  });
});
