import { expect } from "chai";
import { isKvnoBehind, isSharedKey } from "../../../src/server/keytabs/findings.ts";
import { useServer } from "../../harness/server.ts";
import { plansOf, type Step, statementsDuring, stepsOf } from "../auth/query-plans.ts";
import { populate } from "./populate.ts";

const server = useServer({ KEYTAB_ENABLED: "true", LOG_LEVEL: "info" });

const population = { keytabs: 20_000, agents: 1000, files: 20_000, copies: 10_000 };
const dashboard = () => server.admin.rest("GET", "/api/v1/keytabs/dashboard");
const refresh = () => server.admin.rest("POST", "/api/v1/keytabs/refresh-compliance");

const count = async (text: string) => (await server.sql(`select count(*)::int as n from ${text}`))[0].n as number;

const countFiles = (finding: string) => count(`discovered_keytab f where not f.stale and ${finding}`);

/** Processes that read parts of a table together count once each. */
const mostWorkers = 10;

/** How PostgreSQL reads tables of keytabs and files for what the server sends. */
async function readsDuring(work: () => Promise<{ status: number }>): Promise<Step[]> {
  const statements = await statementsDuring(server, async () => expect((await work()).status).to.equal(200));
  const ofKeytabs = statements.filter(({ text }) => text.includes("keytab"));
  const plans = await plansOf(server.databaseUrl, ofKeytabs);
  const reads = plans.flatMap(({ root }) => stepsOf(root)).filter((step) => step["Relation Name"] !== undefined);
  expect(reads).not.to.have.length(0);
  return reads;
}

describe("Among 20,000 keytabs and as many files, beside 10,000 copies of one on one host", () => {
  before(async function () {
    this.timeout(60_000);
    const [{ id }] = await server.sql("select id from organization");
    await populate(server, id, population);
  });

  it("the dashboard counts each keytab and each finding once", async () => {
    const { status, body } = await dashboard();

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
      world_readable: await countFiles("'world_readable' = any(f.findings)"),
      group_readable: await countFiles("'group_readable' = any(f.findings)"),
      wrong_owner: await countFiles("'wrong_owner' = any(f.findings)"),
      old_kvnos: await countFiles("'old_kvnos' = any(f.findings)"),
      shared_key: await countFiles(isSharedKey("f")),
      kvno_behind: await countFiles(isKvnoBehind("f")),
    });
    for (const [finding, files] of Object.entries(body.findings)) expect(files, finding).to.be.above(0);
  });

  it("the dashboard reads each table a few times", async () => {
    for (const read of await readsDuring(dashboard)) expect(read["Actual Loops"]).to.be.at.most(mostWorkers);
  });

  it("a page of files looks their like up by an index", async () => {
    const reads = await readsDuring(() => server.admin.rest("GET", "/api/v1/keytabs/discovered"));

    const repeated = reads.filter((read) => read["Actual Loops"] > mostWorkers).map((read) => read["Node Type"]);
    expect(repeated).not.to.have.length(0);
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
