import { expect } from "chai";
import pg from "pg";
import { foundKeytab, Host } from "../harness/host.ts";
import { newKeytab } from "../harness/keytabs.ts";
import { useServer } from "../harness/server.ts";
import { recordOf } from "../server/discovery/files.ts";
import { findHalfImports } from "./half-imports.ts";

describe("The search for halves of imports", () => {
  const server = useServer({ KEYTAB_ENABLED: "true" });
  before(async () => {
    const host = await Host.enroll(server);
    const path = "/etc/krb5.keytab";
    const bytes = newKeytab();
    await host.report([foundKeytab(path, bytes), foundKeytab("/etc/other.keytab", newKeytab())]);
    host.answerUploads(new Map([[path, bytes]]));
    const { id } = await recordOf(server.admin, host, path);
    const { status } = await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/import`, {});
    expect(status).to.equal(201);
    host.close();
  });

  /** What is found after a statement, of which nothing stays. */
  async function foundAfter(statement: string): Promise<string[]> {
    const db = new pg.Client(server.databaseUrl);
    await db.connect();
    try {
      await db.query("begin");
      await db.query(statement);
      const halves = await findHalfImports({ sql: async (text) => (await db.query(text)).rows });
      return halves.map(({ what }) => what);
    } finally {
      await db.end();
    }
  }

  it("finds none in a whole import, and in a file that nobody imported", async () => {
    expect(await findHalfImports(server)).to.deep.equal([]);
  });

  const halves: Readonly<Record<string, string>> = {
    "keytab without its version": "update keytab_version set keytab_hash = 'another'",
    "keytab with more versions than it says": `insert into keytab_version (keytab_id, version, organization_id, sealed,
        encryption_types, kvno, keytab_hash, changed_by)
      select keytab_id, 2, organization_id, sealed, encryption_types, kvno, keytab_hash, changed_by from keytab_version`,
    "keytab without a key": "delete from data_key where record_id in (select id from keytab)",
    "keytab that nobody is recorded to have imported": `insert into keytab (organization_id, name, principal, realm, kvno,
        encryption_types, cipher_compliance, source, entry_count, keytab_hash)
      select organization_id, name, principal, realm, kvno, encryption_types, cipher_compliance, source, entry_count, 'another'
      from keytab`,
    "keytab without a file": "delete from discovered_keytab where managed_keytab_id is not null",
    "recorded import of nothing": "update keytab set deleted_at = now()",
    "file without its keytab": "update discovered_keytab set managed_keytab_id = null",
    "file with the keytab of another": "update discovered_keytab set managed_keytab_id = (select id from keytab)",
    "key of nothing": "update agent_command set upload = null; update data_key set record_id = uuidv7()",
  };
  for (const [what, statement] of Object.entries(halves)) {
    it(`finds a ${what}`, async () => {
      expect(await foundAfter(statement)).to.include(what);
    });
  }
});
