import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { openAuditWriter } from "../../../src/server/audit/open.ts";
import { chainUnchainedJob } from "../../../src/server/audit/unchained.ts";
import { verifyLog } from "../../../src/server/audit/verify-log.ts";
import { Database } from "../../../src/server/db/database.ts";
import { createLogger } from "../../../src/server/logging.ts";
import { entities } from "../../../src/server/server.ts";
import { organizationChainKey } from "../../../src/standards/audit-chain.ts";
import { cloneDatabase, dropDatabase } from "../../harness/databases.ts";
import { useServer } from "../../harness/server.ts";
import { newLog, verdict } from "./tampering.ts";

/** As the release before wrote events. */
const insertStatement = `insert into audit_event (organization_id, occurred_at, action, outcome, actor_type, actor_id,
    actor_name, resource_type, resource_id, resource_name, project_id, reason, request_id, source_ip, user_agent, details)
  select $1, now() - n * interval '1 day', 'secret.read_value', 'success', 'user', uuidv7(), 'Zoë', 'secret', n::text, null,
    uuidv7(), '', 'before-' || n, '192.0.2.1', null, '{"b":1.50,"a":' || n || '}' from generate_series(1, $2::int) n`;
const stored = "id, occurred_at, action, actor_name, resource_id, reason, request_id, details::json as details";

describe("Events of the releases before there were chains", () => {
  it("become the first of the chains at the start after the migration", async function () {
    this.timeout(60_000);
    const url = await cloneDatabase("template0");
    const db = await Database.open({ url, poolSize: 4, entities, logger: createLogger("silent") });
    try {
      await db.orm.migrator.up({ to: "0002-identities" });
      const organizations = [randomUUID(), randomUUID()];
      for (const organizationId of organizations) await db.query(insertStatement, [organizationId, 1500]);
      const before = await db.query(`select ${stored} from audit_event where $1 order by id`, [true]);
      await db.migrate();
      const installationKey = randomBytes(32);
      const seal = { serviceKey: async () => installationKey } as never;

      await Promise.all([1, 2, 3].map(() => openAuditWriter(db, seal, createLogger("silent"))));

      expect(await db.query(`select ${stored} from audit_event where $1 order by id`, [true])).to.deep.equal(before);
      for (const organizationId of organizations) {
        const key = organizationChainKey(installationKey, organizationId);
        const { verifier, broken } = await verifyLog(db, key, organizationId, AbortSignal.timeout(60_000));
        expect(broken).to.equal(undefined);
        expect(verifier.checked).to.equal(1500);
      }
      const [elsewhere] = await db.query<{ count: number }>(
        "select count(*)::int as count from audit.event_default where $1",
        [true],
      );
      expect(elsewhere?.count).to.equal(0);
    } finally {
      await db.close();
      await dropDatabase(url);
    }
  });
});

describe("Events of a replica of the release before, while this one replaces it", () => {
  const server = useServer();

  it("are kept, and added to the chains within minutes", async () => {
    const log = await newLog(server);
    await server.sql(insertStatement, [log.organizationId, 3]);
    const listed = () => log.admin.rest("GET", "/api/v1/audit-logs?action=secret.read_value&search=");
    const { body: before } = await listed();

    await chainUnchainedJob(server.server.core).run({});
    const { body: after } = await listed();

    expect(after.pagination.total - before.pagination.total).to.equal(3);
    expect(after.data.at(-1)).to.deep.include({ request_id: "before-3", reason: "", details: { a: 3, b: 1.5 } });
    expect(await verdict(log)).to.equal("intact");
  });
});
