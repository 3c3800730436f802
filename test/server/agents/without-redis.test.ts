import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { startValkey, type ValkeyEngine } from "../../../src/engines/engines.ts";
import { KeytabRequests } from "../../../src/server/agents/keytab-requests.ts";
import type { Server } from "../../../src/server/server.ts";
import { Host } from "../../harness/host.ts";
import { newKeytab } from "../../harness/keytabs.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "./refusal.ts";

describe("While Redis is away", () => {
  const settings: Record<string, string> = { KEYTAB_ENABLED: "true" };
  let folder: string;
  let valkey: ValkeyEngine;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "holdfast-test-"));
    valkey = await startValkey(folder);
    settings["REDIS_URL"] = valkey.url;
  });
  const server = useServer(settings);
  let replica: Server;
  let host: Host;
  before(async () => {
    replica = await server.startReplica();
    host = await Host.enroll(server, { url: urlOf(replica) });
    await valkey.stop();
  });
  after(async () => {
    host.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("an agent on another replica is asked and answers all the same", async () => {
    const bytes = newKeytab();
    const filePath = "/etc/krb5.keytab";
    const expectedHash = createHash("sha256").update(bytes).digest("hex");
    const stop = host.answerUploads(new Map([[filePath, bytes]]));
    const [{ organization_id: organizationId }] = await server.sql("select organization_id from agent");
    const { core } = server.server;
    const file = { organizationId, agentId: host.id, hostname: host.hostname, filePath, expectedHash };

    const answer = await new KeytabRequests(core).ask(core.db, file, new AbortController().signal);
    stop();

    expect(answer.equals(bytes)).to.equal(true);
  });

  it("the stream of an agent that is disabled on another replica ends all the same", async () => {
    const watch = host.watch();
    await watch.next();

    await server.admin.rest("POST", `/api/v1/agents/${host.id}/disable`);

    expect(await refusalOf(watch.next())).to.equal("PERMISSION_DENIED: the agent is disabled");
  });
});
