import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ LOG_LEVEL: "info" });

const path = (id: string, query = "") => `/api/v1/secrets/${id}/consumers${query}`;
const list = async (id: string, query = "") => (await server.admin.rest("GET", path(id, query))).body;
const read = (by: Client, id: string, query = "", headers: Record<string, string> = {}) =>
  by.rest("GET", `/api/v1/secrets/${id}${query}`, undefined, headers);
const reader = (name: string) => server.as(`${name}-${randomBytes(4).toString("hex")}`, ["viewer"]);

/** A secret with two versions. */
async function twoVersions() {
  const secret = await server.secret();
  await server.admin.rest("PUT", `/api/v1/secrets/${secret.id}`, { value: "v2" });
  return secret;
}

interface Consumer {
  readonly actor_id: string;
  readonly version: number;
  readonly reads: number;
}

const brief = ({ data }: { data: Consumer[] }) =>
  data.map(({ actor_id, version, reads }) => ({ actor_id, version, reads }));

/** Adds events of a secret to the log, without their chain: `column` gives those of event `n`. */
async function addEvents(
  secretId: string,
  count: number,
  columns: { action?: string; at?: string; actorId?: string; version?: string; resourceId?: string },
): Promise<void> {
  const { action = "'secret.read_value'", at = "now() - n * interval '1 second'", version = "1" } = columns;
  const { actorId = "'00000000-0000-0000-0000-000000000001'", resourceId = "id" } = columns;
  await server.sql(
    `insert into audit_event (organization_id, occurred_at, action, outcome, actor_type, actor_id, actor_name,
       resource_type, resource_id, details, chain, sequence, previous_hash, hash)
     select organization_id, ${at}, ${action}, 'success', 'machine_identity', (${actorId})::uuid, 'job', 'secret', (${resourceId})::text,
       '{"version":' || (${version}) || '}', 1000, n + (select coalesce(max(sequence), 0) from audit_event where chain = 1000), '', ''
     from secret, generate_series(1, $2::int) n where id = $1`,
    [secretId, count],
  );
}

describe("ListSecretConsumers", () => {
  it("says who read which version, how often and when last, the newest read first", async () => {
    const { id } = await twoVersions();
    const [first, second] = [await reader("first"), await reader("second")];
    await read(first, id, "?version=1");
    await read(second, id);
    await read(first, id, "?version=1");
    await read(first, id);

    const { data, pagination } = await list(id);

    expect(brief({ data })).to.deep.equal([
      { actor_id: first.id, version: 2, reads: 1 },
      { actor_id: first.id, version: 1, reads: 2 },
      { actor_id: second.id, version: 2, reads: 1 },
    ]);
    expect(pagination).to.deep.equal({ page: 1, per_page: 25, total: 3 });
    expect(data[0]).to.have.all.keys("actor_type", "actor_id", "actor_name", "version", "last_read_at", "reads");
    expect(data[0].actor_type).to.equal("machine_identity");
    expect(data[0].actor_name).to.match(/^first-/);
    const { body: events } = await server.admin.rest("GET", `/api/v1/audit-logs?resource_id=${id}&per_page=1`);
    expect(data[0].last_read_at).to.equal(events.data[0].occurred_at);
  });

  it("selects those who read a version", async () => {
    const { id } = await twoVersions();
    const old = await reader("old");
    await read(old, id, "?version=1");
    await read(server.admin, id);

    expect(brief(await list(id, "?version=1"))).to.deep.equal([{ actor_id: old.id, version: 1, reads: 1 }]);
    expect(await list(id, "?version=3")).to.deep.include({ data: [], pagination: { page: 1, per_page: 25, total: 0 } });
  });

  it("counts who asks whether the version that they have is the current one, which they are not given again", async () => {
    const { id } = await twoVersions();
    const caching = await reader("caching");

    await read(caching, id);
    const { status } = await read(caching, id, "", { "if-none-match": '"2"' });

    expect(status).to.equal(304);
    expect(brief(await list(id))).to.deep.equal([{ actor_id: caching.id, version: 2, reads: 2 }]);
  });

  it("counts a copy as a read of the version that was copied", async () => {
    const { id } = await twoVersions();

    await server.admin.rest("POST", `/api/v1/secrets/${id}/copy`, { key: randomUUID(), version: 1 });

    expect(brief(await list(id))).to.deep.equal([{ actor_id: server.admin.id, version: 1, reads: 1 }]);
  });

  it("counts nothing that gave no value: metadata, refused reads, changes, reads of other secrets", async () => {
    const { id } = await twoVersions();
    const nobody = await server.as(`nobody-${randomUUID()}`, []);

    await read(server.admin, id, "?view=metadata");
    await read(server.admin, id, "?version=9");
    await read(nobody, id);
    await server.admin.rest("POST", `/api/v1/secrets/${id}/rollback`, { version: 1 });
    await read(server.admin, (await server.secret()).id);

    expect(brief(await list(id))).to.deep.equal([]);
  });

  it("has one row for somebody who was renamed, under the name of the last read", async () => {
    const { id } = await server.secret();
    const renamed = await reader("before");
    await read(renamed, id);
    const name = `after-${randomUUID()}`;
    await server.admin.rest("PUT", `/api/v1/machine-identities/${renamed.id}`, { name });
    await read(renamed, id);

    const { data } = await list(id);

    expect(data).to.have.length(1);
    expect(data[0]).to.include({ actor_id: renamed.id, actor_name: name, reads: 2 });
  });

  it("gives pages that neither repeat nor skip, with the total also past the last one", async () => {
    const { id } = await server.secret();
    await addEvents(id, 5, { actorId: "uuidv7()" });

    const pages = [];
    for (const page of [1, 2, 3, 4]) pages.push(await list(id, `?page=${page}&per_page=2`));

    expect(pages.map(({ data }) => data.length)).to.deep.equal([2, 2, 1, 0]);
    expect(pages.map(({ pagination }) => pagination.total)).to.deep.equal([5, 5, 5, 5]);
    expect(new Set(pages.flatMap(({ data }) => data.map(({ actor_id }: Consumer) => actor_id))).size).to.equal(5);
  });

  it("looks at the last ninety days", async () => {
    const { id } = await server.secret();
    await addEvents(id, 1, { at: "now() - interval '91 days'", version: "7" });
    await addEvents(id, 1, { at: "now() - interval '89 days'", version: "8" });

    expect((await list(id)).data.map(({ version }: Consumer) => version)).to.deep.equal([8]);
  });

  it("is refused with 400 for what cannot be a page or a version, and the field is named", async () => {
    const { id } = await server.secret();
    for (const query of ["page=0", "per_page=101", "per_page=0", "version=0", "version=x"]) {
      const { status, body } = await server.admin.rest("GET", path(id, `?${query}`));

      expect(status, query).to.equal(400);
      expect(body.error.details[0].field).to.equal(query.split("=")[0]);
    }
  });

  it("is 404 for a secret that is archived, deleted, unknown or another organization's", async () => {
    const archived = await server.secret();
    await server.admin.rest("POST", `/api/v1/secrets/${archived.id}/archive`);
    const deleted = await server.secret();
    await server.admin.rest("DELETE", `/api/v1/secrets/${deleted.id}`);
    const { admin, projectId } = await server.otherOrganization();
    const theirs = await server.secret({ project_id: projectId }, admin);

    for (const id of [archived.id, deleted.id, randomUUID(), theirs.id, "nonsense"]) {
      expect((await server.admin.rest("GET", path(id))).status).to.equal(404);
    }
  });

  it("takes rotation:read, at the organization or in the secret's project", async () => {
    const { id } = await server.secret();
    const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: randomUUID() });
    const role = `watcher-${randomUUID()}`;
    await server.admin.rest("POST", "/api/v1/roles", { name: role, permissions: ["rotation:read"] });
    const holding = (project_id: string) =>
      server.as(`holder-${randomUUID()}`, { projectRoles: [{ project_id, role }] });

    const inside = await (await holding(server.projectId)).rest("GET", path(id));
    const outside = await (await holding(other.id)).rest("GET", path(id));

    expect(inside.status).to.equal(200);
    expect([outside.status, outside.body.error.code]).to.deep.equal([403, "PERMISSION_DENIED"]);
  });
});

describe("Among 60,000 events of a secret and as many of others", () => {
  let id = "";
  before(async function () {
    this.timeout(60_000);
    ({ id } = await server.secret());
    // A job reads all the time. Two others read once: the last of the newest 20,000 events, and the one before.
    await addEvents(id, 60_000, {
      actorId:
        "'00000000-0000-0000-0000-' || lpad(case n when 20000 then 3 when 19999 then 2 else 1 end::text, 12, '0')",
      action: "case when n % 2 = 0 and n < 10000 then 'secret.sync' else 'secret.read_value' end",
    });
    // To PostgreSQL any secret is one with few events.
    await addEvents(id, 60_000, { resourceId: "uuidv7()" });
    await server.sql("analyze audit_event");
  });

  it("the newest 20,000 are looked at, of whatever kind", async () => {
    const { data } = await list(id);

    expect(brief({ data })).to.deep.equal([
      { actor_id: "00000000-0000-0000-0000-000000000001", version: 1, reads: 14_999 },
      { actor_id: "00000000-0000-0000-0000-000000000002", version: 1, reads: 1 },
    ]);
  });

  it("no more is read than these, also when PostgreSQL has a plan for whatever secret comes", async () => {
    // From the sixth execution on a connection it may keep one.
    const touched = await pagesTouchedBy(async () => {
      for (let call = 0; call < 20; call += 1) await list(id);
    });

    const [{ pages }] = await server.sql(
      `select sum(relpages)::int as pages from pg_class
       where oid in (select relid from pg_partition_tree('audit_event')) and relkind = 'r'`,
    );
    const share = (pages * 20_000) / 120_000;
    expect(touched / 20).to.be.within(share / 2, share * 2);
  });
});

/** Pages of the log that all of the server's connections touch on account of `work`. */
async function pagesTouchedBy(work: () => Promise<void>): Promise<number> {
  const count = async () => {
    const [{ pages }] = await server.sql(
      `select sum(heap_blks_hit + heap_blks_read)::int as pages
       from pg_statio_all_tables where relid in (select relid from pg_partition_tree('audit_event'))`,
    );
    return pages as number;
  };
  const before = await count();
  await work();
  // Counts are told when a connection is idle for a while, or ends.
  await server.sql(
    "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
  );
  return (await count()) - before;
}
