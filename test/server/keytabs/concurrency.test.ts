import { expect } from "chai";
import type { Answer } from "../../harness/client.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const path = "/api/v1/keytabs";
const times = <T>(count: number, work: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));
const counted = (answers: readonly Answer[]) => {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};
const post = (file: Buffer, fields: Record<string, unknown> = {}) =>
  server.admin.rest("POST", path, { name: "k", keytab_data: file.toString("base64"), ...fields });
const put = (id: string, file: Buffer, fields: Record<string, unknown> = {}) =>
  server.admin.rest("PUT", `${path}/${id}`, { keytab_data: file.toString("base64"), ...fields });
const historyOf = async (id: string) => (await server.admin.rest("GET", `${path}/${id}/history`)).body;

/** Sends a request again while the server is too busy to serve it, as clients do. */
async function served(send: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await send();
    if (answer.status !== 503) return answer;
  }
}

describe("At the same time", () => {
  it("imports of one file make one keytab: one 201, the rest 409", async () => {
    const file = newKeytab();

    const answers = await times(50, () => served(() => post(file)));

    expect(counted(answers)).to.deep.equal({ 201: 1, 409: 49 });
    const [rows] = await server.sql(
      `select (select count(*)::int from keytab) as keytabs, (select count(*)::int from keytab_version) as versions,
         (select count(*)::int from data_key where record_id not in (select id from user_account)) as keys`,
    );
    expect(rows).to.deep.equal({ keytabs: 1, versions: 1, keys: 1 });
  });

  it("imports of one file into two organizations are both 201", async () => {
    const other = await server.otherOrganization();
    const file = newKeytab();

    const answers = await Promise.all([post(file), importKeytab(other.admin, file)]);

    expect(answers[0].status).to.equal(201);
    expect(answers[1].keytab_hash).to.equal(answers[0].body.keytab_hash);
  });

  it("replacements make the versions one after the other, and none is lost", async () => {
    const { id } = await importKeytab(server.admin);

    const answers = await times(20, () => served(() => put(id, newKeytab())));

    expect(counted(answers)).to.deep.equal({ 200: 20 });
    const history: { version: number; keytab_hash: string }[] = await historyOf(id);
    expect(history.map(({ version }) => version)).to.deep.equal(Array.from({ length: 21 }, (_, index) => 21 - index));
    for (const { body } of answers) {
      expect(history[21 - body.version]?.keytab_hash).to.equal(body.keytab_hash);
    }
  });

  it("the same replacement twice makes one version", async () => {
    const { id } = await importKeytab(server.admin);
    const file = newKeytab();

    const answers = await times(10, () => served(() => put(id, file)));

    for (const { status, body } of answers) expect([status, body.version]).to.deep.equal([200, 2]);
    expect(await historyOf(id)).to.have.length(2);
  });

  it("of replacements that expect the same version one is made", async () => {
    const { id } = await importKeytab(server.admin);

    const answers = await times(10, () => served(() => put(id, newKeytab(), { expected_version: 1 })));

    expect(counted(answers)).to.deep.equal({ 200: 1, 409: 9 });
    expect(await historyOf(id)).to.have.length(2);
  });

  it("of one file as the replacement of many keytabs, and as an import, one comes through", async () => {
    const keytabs = await times(8, () => importKeytab(server.admin));
    const file = newKeytab();

    const answers = await Promise.all([
      served(() => post(file)),
      ...keytabs.map(({ id }) => served(() => put(id, file))),
    ]);

    const successes = answers.filter(({ status }) => status === 200 || status === 201);
    expect(successes).to.have.length(1);
    expect(answers.filter(({ status }) => status === 409)).to.have.length(8);
  });

  it("two keytabs that exchange their files are left whole, whoever comes through", async () => {
    const [first, second] = [newKeytab(), newKeytab()];
    const [a, b] = await Promise.all([importKeytab(server.admin, first), importKeytab(server.admin, second)]);

    const answers = await Promise.all([served(() => put(a.id, second)), served(() => put(b.id, first))]);

    expect(counted(answers)).to.deep.equal({ 409: 2 });
    for (const { id, keytab_hash } of [a, b]) {
      expect((await server.admin.rest("GET", `${path}/${id}`)).body).to.include({ keytab_hash, version: 1 });
    }
  });

  it("a delete and replacements leave a keytab that is gone, with the versions that were answered", async () => {
    const { id } = await importKeytab(server.admin);

    const [deleted, ...replaced] = await Promise.all([
      server.admin.rest("DELETE", `${path}/${id}`),
      ...Array.from({ length: 6 }, () => put(id, newKeytab())),
    ]);

    expect(deleted?.status).to.equal(204);
    expect(replaced.filter(({ status }) => status !== 200 && status !== 404)).to.deep.equal([]);
    const [kept] = await server.sql("select count(*)::int as n from keytab_version where keytab_id = $1", [
      id.slice(3),
    ]);
    expect(kept.n).to.equal(1 + replaced.filter(({ status }) => status === 200).length);
  });

  it("a project that is removed while keytabs are imported stays with them, or is gone without: never an orphan", async () => {
    for (let round = 0; round < 6; round += 1) {
      const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: `project-${round}` });

      const [removed, ...imports] = await Promise.all([
        server.admin.rest("DELETE", `/api/v1/projects/${project.id}`),
        ...Array.from({ length: 4 }, () => post(newKeytab(), { project_id: project.id })),
      ]);

      const made = imports.filter(({ status }) => status === 201).length;
      expect(imports.filter(({ status }) => status !== 201 && status !== 404)).to.deep.equal([]);
      expect(removed?.status).to.equal(made === 0 ? 204 : 409);
    }
    const orphans = await server.sql(
      `select 1 from data_key where record_id not in (select id from keytab) and record_id not in (select id from user_account)`,
    );
    expect(orphans).to.deep.equal([]);
  });
});
