import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { installationChainKey } from "../../../src/server/audit/chain-key.ts";
import { openAuditWriter } from "../../../src/server/audit/open.ts";
import { chainUnchained } from "../../../src/server/audit/unchained.ts";
import { verifyLog } from "../../../src/server/audit/verify-log.ts";
import { Database } from "../../../src/server/db/database.ts";
import { createLogger } from "../../../src/server/logging.ts";
import { Seal } from "../../../src/server/seal/seal.ts";
import { entities } from "../../../src/server/server.ts";
import { organizationChainKey } from "../../../src/standards/audit-chain.ts";
import { cloneDatabase, dropDatabase } from "../../harness/databases.ts";
import { useServer } from "../../harness/server.ts";

const logger = createLogger("silent");
const dayMs = 86_400_000;

/** As the release before wrote events. */
const insertStatement = `insert into audit_event (organization_id, occurred_at, action, outcome, actor_type, actor_id,
    actor_name, resource_type, resource_id, resource_name, project_id, reason, request_id, source_ip, user_agent, details)
  select $1, now() - n * interval '1 hour', 'secret.read_value', 'success', 'user', uuidv7(), 'Zoë', 'secret', n::text, null,
    uuidv7(), '', 'before-' || n, '192.0.2.1', null, '{"b":1.50,"a":' || n || '}' from generate_series(1, $2::int) n`;

describe("Events of the releases before there were chains", () => {
  const organizations = [randomUUID(), randomUUID()];
  let url: string;
  let db: Database;
  let seal: Seal;
  /** A database of the release before, with 1,500 events of each organization, that this release has just migrated. */
  before(async function () {
    this.timeout(60_000);
    url = await cloneDatabase("template0");
    db = await Database.open({ url, poolSize: 4, entities, logger });
    await db.orm.migrator.up({ to: "0002-identities" });
    for (const organizationId of organizations) await db.query(insertStatement, [organizationId, 1500]);
    original = await stored();
    await db.migrate();
    const wrapping = { wrap: async (_: string, key: Buffer) => key, unwrap: async (_: string, key: Buffer) => key };
    seal = new Seal(db, wrapping as never);
  });
  after(async () => {
    await db.close();
    await dropDatabase(url);
  });

  let original: unknown[];
  const stored = () =>
    db.query(
      `select id, occurred_at, action, actor_name, resource_id, reason, request_id, details::json as details
       from audit_event where $1 order by id`,
      [true],
    );
  const insert = (count: number) => db.query(insertStatement, [organizations[0], count]);

  it("become the first of the chains at the start after the migration, on whatever replicas", async function () {
    this.timeout(60_000);
    await Promise.all([1, 2, 3].map(() => openAuditWriter(db, seal, logger)));

    expect(await stored()).to.deep.equal(original);
    const { key: installationKey } = await installationChainKey(seal);
    for (const organizationId of organizations) {
      const key = organizationChainKey(installationKey, organizationId);
      const { verifier, broken } = await verifyLog(db, key, organizationId, AbortSignal.timeout(60_000));
      expect(broken).to.equal(undefined);
      expect(verifier.checked).to.equal(1500);
    }
    const elsewhere = await db.query("select from audit.event_default where $1", [true]);
    expect(elsewhere).to.deep.equal([]);
  });

  it("are added to the chains also when a last replica of the release before writes them after that", async () => {
    const audit = await openAuditWriter(db, seal, logger);
    await insert(3);
    expect(await stored()).to.have.length(3000);

    await chainUnchained({ db, audit, logger }, (await installationChainKey(seal)).madeAt);

    expect(await stored()).to.have.length(3003);
  });

  it("are not taken for such a day after the first start with chains", async () => {
    const audit = await openAuditWriter(db, seal, logger);
    const count = (await stored()).length;
    await insert(1);

    await chainUnchained({ db, audit, logger }, new Date(Date.now() - dayMs));

    expect(await stored()).to.have.length(count);
  });
});

describe("An installation that never had another release", () => {
  const server = useServer();

  it("takes no event without its chain", async () => {
    const [{ organization_id: organizationId }] = await server.sql("select organization_id from audit_event limit 1");

    const refusal = await server.sql(insertStatement, [organizationId, 1]).catch((error: Error) => error.message);

    expect(refusal).to.match(/null value in column "chain"/);
    expect(await server.sql("select to_regclass('audit.unchained_event') as kept")).to.deep.equal([{ kept: null }]);
  });
});
