import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { plansOf, statementsDuring, stepsOf } from "../auth/query-plans.ts";
import { populate } from "./populate.ts";

const server = useServer({ KEYTAB_ENABLED: "true", LOG_LEVEL: "info" });

const population = { keytabs: 20_000, agents: 1000, files: 20_000, copies: 10_000 };
const dashboard = () => server.admin.rest("GET", "/api/v1/keytabs/dashboard");
const refresh = () => server.admin.rest("POST", "/api/v1/keytabs/refresh-compliance");

const count = async (text: string) => (await server.sql(`select count(*)::int as n from ${text}`))[0].n as number;

describe("Among 20,000 keytabs and as many files, beside 10,000 copies of one on one host", () => {
  before(async function () {
    this.timeout(60_000);
    const [{ id }] = await server.sql("select id from organization");
    await populate(server, id, population);
  });

  it("the dashboard counts each keytab and each finding once", async () => {
    const { status, body } = await dashboard();

    const live = "keytab where deleted_at is null";
    const seen = "discovered_keytab where not stale";
    expect(status).to.equal(200);
    expect(body.overview).to.include({
      total: 19_800,
      active: 19_200,
      expired: 400,
      disabled: 200,
      expiring_soon: 200,
    });
    expect(body.cipher_distribution[0]).to.deep.equal({ cipher: "aes256-cts-hmac-sha1-96", count: 19_800 });
    expect(body.expiring_keytabs).to.have.length(50);
    expect(body.findings).to.deep.equal({
      world_readable: await count(`${seen} and 'world_readable' = any(findings)`),
      group_readable: await count(`${seen} and 'group_readable' = any(findings)`),
      wrong_owner: await count(`${seen} and 'wrong_owner' = any(findings)`),
      old_kvnos: await count(`${seen} and 'old_kvnos' = any(findings)`),
      shared_key: await count(
        `${seen} and keytab_hash in (select keytab_hash from ${seen} group by 1 having count(distinct agent_id) > 1)`,
      ),
      kvno_behind: await count(
        `(select principal, kvno from ${seen}) file join (
           select principal, max(kvno) as newest
           from (select principal, kvno from ${seen} union all select principal, kvno from ${live}) key group by principal
         ) others using (principal) where kvno < newest`,
      ),
    });
  });

  it("the dashboard reads each table a few times, and finds by an index what it compares a file with", async () => {
    const statements = await statementsDuring(server, dashboard);

    const plans = await plansOf(
      server.databaseUrl,
      statements.filter(({ text }) => text.includes("keytab")),
    );
    const reads = plans.flatMap(({ root }) => stepsOf(root)).filter((step) => step["Relation Name"] !== undefined);
    const repeated = reads.filter((step) => step["Actual Loops"] > 10).map((step) => step["Node Type"]);
    expect(statements.length).to.be.at.most(6);
    expect(repeated).to.include("Index Scan");
    for (const way of repeated) expect(["Index Scan", "Index Only Scan"]).to.include(way);
  });

  it("a preview counts all that would change, and lists as many as it is asked for", async () => {
    const policy = { allowed_ciphers: ["aes256-cts"], deprecated_ciphers: [], enforcement_mode: "warn", limit: 1000 };

    const { status, body } = await server.admin.rest("POST", "/api/v1/keytabs/cipher-policy/preview", policy);

    const keytabs = "keytab where deleted_at is null and encryption_types <> '{aes256-cts-hmac-sha1-96}'";
    const outside = "not stale and encryption_types && '{aes128-cts-hmac-sha1-96,aes256-cts-hmac-sha384-192}'";
    const files = `discovered_keytab where ${outside} and not 'des-cbc-md5' = any(encryption_types)`;
    expect(status).to.equal(200);
    expect(body.totals).to.deep.equal({
      keytabs: 19_800,
      changed_keytabs: await count(keytabs),
      files: await count("discovered_keytab where not stale"),
      changed_files: await count(files),
      changed_principals: await count(`(select principal from ${keytabs} union select principal from ${files}) each`),
    });
    for (const list of [body.keytabs, body.files, body.principals]) expect(list).to.have.length(1000);
  });

  it("a refresh writes what changes and nothing else, in batches, and says in the log how far it is", async () => {
    const changing = await count("keytab where deleted_at is null and 'arcfour-hmac' = any(encryption_types)");
    const logged = server.log.length;

    const first = await refresh();
    const lines = server.log
      .slice(logged)
      .split("\n")
      .filter((line) => line.includes("keytabs checked"));
    const second = await refresh();

    expect(first.body).to.deep.equal({ updated: changing, evaluated: 19_800 });
    expect(second.body).to.deep.equal({ updated: 0, evaluated: 19_800 });
    expect(lines.map((line) => JSON.parse(line).evaluated)).to.deep.equal([5000, 10_000, 15_000, 19_800]);
    expect(await count("keytab where updated_at > created_at")).to.equal(changing);
  });
});
