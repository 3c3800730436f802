import { expect } from "chai";
import pg from "pg";
import type { Answer } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();

const times = <T>(count: number, work: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));
const counted = (answers: readonly Answer[]) => {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};
const put = (id: string, body: unknown, headers: Record<string, string> = {}) =>
  server.admin.rest("PUT", `/api/v1/secrets/${id}`, body, headers);

/** Sends a request again while the server is too busy to serve it, as clients do. */
async function served(send: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await send();
    if (answer.status !== 503) return answer;
  }
}

async function newProject(): Promise<string> {
  return (await server.admin.rest("POST", "/api/v1/projects", { name: `project-${Math.random()}` })).body.id;
}

/** Runs `work` while another transaction has done `statement`, and commits that one once `work` waits for it. */
async function whileHeld(statement: string, values: unknown[], work: () => Promise<Answer>): Promise<Answer> {
  const holder = new pg.Client(server.databaseUrl);
  await holder.connect();
  try {
    await holder.query("begin");
    await holder.query(statement, values);
    const answer = work();
    for (;;) {
      const [waiting] = await server.sql(
        "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      if (waiting !== undefined) break;
    }
    await holder.query("commit");
    return await answer;
  } finally {
    await holder.end();
  }
}

describe("At the same time", () => {
  it("200 creates of one key make one secret: one 201, the rest 409", async () => {
    const contended = { project_id: server.projectId, key: "contended", value: "v" };

    const answers = await times(200, () => served(() => server.admin.rest("POST", "/api/v1/secrets", contended)));

    expect(counted(answers)).to.deep.equal({ 201: 1, 409: 199 });
    const [rows] = await server.sql(
      `select count(*)::int as secrets, (select count(*)::int from data_key where record_id not in (select id from user_account)) as keys,
         (select count(*)::int from secret_version) as versions from secret`,
    );
    expect(rows).to.deep.equal({ secrets: 1, keys: 1, versions: 1 });
  });

  it("50 changes of a value make the versions 2 to 51, each once, and none is lost", async () => {
    const { id } = await server.secret({ value: "v1" });

    const answers = await times(50, (index) => served(() => put(id, { value: `value-${index}` })));

    expect(counted(answers)).to.deep.equal({ 200: 50 });
    const versions = answers.map(({ body }) => body.version).sort((a, b) => a - b);
    expect(versions).to.deep.equal(Array.from({ length: 50 }, (_, index) => index + 2));
    for (const [index, { body }] of answers.entries()) {
      if (index % 10 !== 0) continue;
      const { body: read } = await server.admin.rest("GET", `/api/v1/secrets/${id}?version=${body.version}`);
      expect(read.value).to.equal(`value-${index}`);
    }
  });

  it("of 20 changes that expect the same version one is made", async () => {
    const { id } = await server.secret();

    const answers = await times(20, (index) => put(id, { value: `value-${index}` }, { "if-match": '"1"' }));

    expect(counted(answers)).to.deep.equal({ 200: 1, 409: 19 });
    const winner = answers.findIndex(({ status }) => status === 200);
    const { body } = await server.admin.rest("GET", `/api/v1/secrets/${id}`);
    expect(body).to.include({ version: 2, value: `value-${winner}` });
  });

  it("changes of different fields are all kept", async () => {
    const { id } = await server.secret();

    await Promise.all([
      put(id, { description: "d" }),
      put(id, { tags: ["t"] }),
      put(id, { value: "two" }),
      put(id, { rotation: { enabled: true } }),
    ]);

    const { body } = await server.admin.rest("GET", `/api/v1/secrets/${id}`);
    expect(body).to.deep.include({ description: "d", tags: ["t"], value: "two", version: 2 });
    expect(body.rotation.enabled).to.equal(true);
  });

  it("a delete and rollbacks leave a deleted secret whose versions are those that were answered", async () => {
    const { id } = await server.secret();

    const [deleted, ...rollbacks] = await Promise.all([
      server.admin.rest("DELETE", `/api/v1/secrets/${id}`),
      ...Array.from({ length: 10 }, () => server.admin.rest("POST", `/api/v1/secrets/${id}/rollback`, { version: 1 })),
    ]);

    const made = rollbacks.filter(({ status }) => status === 200).length;
    expect(deleted.status).to.equal(204);
    expect(rollbacks.filter(({ status }) => status !== 200 && status !== 404)).to.deep.equal([]);
    const [row] = await server.sql(
      "select status, version, (select count(*)::int from secret_version where secret_id = id) as n from secret where id = $1",
      [id],
    );
    expect(row).to.deep.equal({ status: "deleted", version: 1 + made, n: 1 + made });
  });

  it("10 restores of a deleted secret restore it once", async () => {
    const { id } = await server.secret();
    await server.admin.rest("DELETE", `/api/v1/secrets/${id}`);

    const answers = await times(10, () => server.admin.rest("POST", `/api/v1/secrets/${id}/restore`));

    expect(counted(answers)).to.deep.equal({ 200: 1, 409: 9 });
  });

  it("permanent deletes and changes leave nothing behind", async () => {
    const { id } = await server.secret();

    const answers = await Promise.all([
      ...Array.from({ length: 5 }, () => put(id, { value: "x" })),
      server.admin.rest("DELETE", `/api/v1/secrets/${id}/permanent`),
      ...Array.from({ length: 5 }, () => put(id, { value: "y" })),
    ]);

    expect(answers.filter(({ status }) => ![200, 204, 404].includes(status))).to.deep.equal([]);
    const left = await server.sql(
      "select 1 from secret_version where secret_id = $1 union all select 1 from data_key where record_id = $1",
      [id],
    );
    expect(left).to.deep.equal([]);
  });
});

describe("A project that is removed while a secret is created in it", () => {
  it("holds the secret and stays, or is gone and the create is 404: never an orphan", async () => {
    for (let round = 0; round < 8; round += 1) {
      const project_id = await newProject();
      const create = (index: number) =>
        server.admin.rest("POST", "/api/v1/secrets", { project_id, key: `k${index}`, value: "v" });

      const [removed, ...creates] = await Promise.all([
        server.admin.rest("DELETE", `/api/v1/projects/${project_id}`),
        ...Array.from({ length: 4 }, (_, index) => create(index)),
      ]);

      const made = creates.filter(({ status }) => status === 201).length;
      expect(creates.filter(({ status }) => status !== 201 && status !== 404)).to.deep.equal([]);
      expect(removed.status).to.equal(made === 0 ? 204 : 409);
    }
    const orphans = await server.sql(
      `select 1 from secret s where not exists (select 1 from project p where p.id = s.project_id)
       union all select 1 from data_key k where not exists (
         select 1 from secret s where s.id = k.record_id union all select 1 from user_account u where u.id = k.record_id)`,
    );
    expect(orphans).to.deep.equal([]);
  });

  it("makes the create wait, and then answer 404 naming the project", async () => {
    const project_id = await newProject();

    const { status, body } = await whileHeld("delete from project where id = $1", [project_id], () =>
      server.admin.rest("POST", "/api/v1/secrets", { project_id, key: "k", value: "v" }),
    );

    expect(status).to.equal(404);
    expect(body.error.details[0].field).to.equal("project_id");
  });

  it("stays when a deleted secret of it is restored meanwhile", async () => {
    const project_id = await newProject();
    const { id } = await server.secret({ project_id });
    await server.admin.rest("DELETE", `/api/v1/secrets/${id}`);

    const { status } = await whileHeld(
      "update secret set status = 'active', deleted_at = null where id = $1",
      [id],
      () => server.admin.rest("DELETE", `/api/v1/projects/${project_id}`),
    );

    expect(status).to.equal(409);
    expect((await server.admin.rest("GET", `/api/v1/secrets/${id}`)).status).to.equal(200);
  });
});

describe("A project whose key_scope changes while a secret is created in it", () => {
  it("makes the create wait, and follow the new scope", async () => {
    const project_id = await newProject();

    const { status } = await whileHeld(
      "update project set key_scope = 'environment', id = id where id = (select id from project where id = $1 for update)",
      [project_id],
      () =>
        server.admin.rest("POST", "/api/v1/secrets", { project_id, key: "k", value: "v", environment: "production" }),
    );

    expect(status).to.equal(201);
    const [row] = await server.sql("select key_environment from secret where project_id = $1", [project_id]);
    expect(row.key_environment).to.equal("production");
  });
});
