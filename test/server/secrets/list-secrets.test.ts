import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { listItemKeys } from "./record-keys.ts";
import { statementsOf } from "./statements.ts";

const server = useServer();

async function newProject(): Promise<string> {
  const { body } = await server.admin.rest("POST", "/api/v1/projects", { name: `project-${Math.random()}` });
  return body.id;
}

/** A new project that holds a secret for each key; a record adds fields to the key. */
async function projectWith(...secrets: (string | Record<string, unknown>)[]): Promise<string> {
  const project_id = await newProject();
  for (const each of secrets) {
    await server.secret({ project_id, ...(typeof each === "string" ? { key: each } : each) });
  }
  return project_id;
}

const list = (projectId: string, query: Record<string, string> = {}) =>
  server.admin.rest("GET", `/api/v1/secrets?${new URLSearchParams({ project_id: projectId, ...query }).toString()}`);

const keysOf = ({ body }: { body: { data: { key: string }[] } }) => body.data.map(({ key }) => key);

describe("ListSecrets", () => {
  it("answers {data, pagination} with exactly the fields of a list item, and no value", async () => {
    const projectId = await projectWith({ key: "k", value: "hunter2-hunter2", rotation: { enabled: true } });

    const { status, body } = await list(projectId);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys("data", "pagination");
    expect(body.pagination).to.deep.equal({ page: 1, per_page: 25, total: 1 });
    expect(body.data[0]).to.have.all.keys(listItemKeys);
    expect(body.data[0].rotation).to.have.all.keys("enabled", "next_rotation");
    expect(body.data[0].rotation.next_rotation).to.be.a("string");
    expect(JSON.stringify(body)).not.to.include("hunter2");
  });

  it("shows a list item as the metadata shows it", async () => {
    const projectId = await newProject();
    const { rotation, ...created } = await server.secret({
      project_id: projectId,
      environment: "production",
      ttl_hours: 5,
      description: "d",
      tags: ["a", "b"],
    });

    const { body } = await list(projectId);

    const { rotation: shown, ...item } = body.data[0];
    expect(created).to.deep.include(item);
    expect(shown).to.deep.equal({ enabled: rotation.enabled, next_rotation: rotation.next_rotation });
  });

  it("orders by key, byte by byte", async () => {
    const projectId = await projectWith("b", "a", "B", "_", "ä", "a1", "1");

    const answer = await list(projectId);

    expect(keysOf(answer)).to.deep.equal(["1", "B", "_", "a", "a1", "b", "ä"]);
  });

  it("orders equal keys by id", async () => {
    const projectId = await newProject();
    await server.admin.rest("PUT", `/api/v1/projects/${projectId}`, { key_scope: "environment" });
    for (const environment of ["c", "a", "b"]) await server.secret({ project_id: projectId, key: "k", environment });

    const { body } = await list(projectId);

    const ids = body.data.map(({ id }: { id: string }) => id);
    expect(ids).to.deep.equal(ids.toSorted((a: string, b: string) => (a < b ? -1 : 1)));
  });

  it("searches keys for a substring, whatever its case", async () => {
    const projectId = await projectWith("DB_PASSWORD", "db_user", "API_KEY", "ÄPFEL");

    expect(keysOf(await list(projectId, { search: "Db_" }))).to.deep.equal(["DB_PASSWORD", "db_user"]);
    expect(keysOf(await list(projectId, { search: "pass" }))).to.deep.equal(["DB_PASSWORD"]);
    expect(keysOf(await list(projectId, { search: "äpf" }))).to.deep.equal(["ÄPFEL"]);
    expect(keysOf(await list(projectId, { search: "nothing" }))).to.deep.equal([]);
    expect(keysOf(await list(projectId, { search: "" }))).to.have.length(4);
  });

  it("takes %, _ and \\ in a search for themselves", async () => {
    const projectId = await projectWith("100%", "a_b", "axb", "back\\slash", "plain");

    expect(keysOf(await list(projectId, { search: "%" }))).to.deep.equal(["100%"]);
    expect(keysOf(await list(projectId, { search: "a_b" }))).to.deep.equal(["a_b"]);
    expect(keysOf(await list(projectId, { search: "\\" }))).to.deep.equal(["back\\slash"]);
  });

  it("selects by environment exactly, by tag, by type, and by all together", async () => {
    const projectId = await projectWith(
      { key: "a", environment: "production", tags: ["db", "x"], type: "password" },
      { key: "b", environment: "Production", tags: ["db"] },
      { key: "c", tags: ["d"], type: "password" },
      { key: "d", environment: "production", type: "token" },
    );

    expect(keysOf(await list(projectId, { environment: "production" }))).to.deep.equal(["a", "d"]);
    expect(keysOf(await list(projectId, { environment: "prod" }))).to.deep.equal([]);
    expect(keysOf(await list(projectId, { tag: "db" }))).to.deep.equal(["a", "b"]);
    expect(keysOf(await list(projectId, { type: "password" }))).to.deep.equal(["a", "c"]);
    const all = { environment: "production", tag: "db", type: "password", search: "A" };
    expect(keysOf(await list(projectId, all))).to.deep.equal(["a"]);
  });

  it("shows active secrets unless asked for archived or deleted ones", async () => {
    const projectId = await newProject();
    const ids: Record<string, string> = {};
    for (const key of ["active", "archived", "deleted"]) {
      ids[key] = (await server.secret({ project_id: projectId, key })).id;
    }
    await server.admin.rest("POST", `/api/v1/secrets/${ids["archived"]}/archive`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${ids["deleted"]}`);

    expect(keysOf(await list(projectId))).to.deep.equal(["active"]);
    for (const status of ["active", "archived", "deleted"]) {
      const answer = await list(projectId, { status });

      expect(keysOf(answer), status).to.deep.equal([status]);
      expect(answer.body.data[0].status).to.equal(status);
      expect(answer.body.pagination.total).to.equal(1);
    }
  });

  it("holds the secrets of one project only", async () => {
    await projectWith("elsewhere");
    const projectId = await projectWith("here");

    expect(keysOf(await list(projectId))).to.deep.equal(["here"]);
  });

  it("finds a project by its id in capitals too, for one who may read in that project only", async () => {
    const projectId = await projectWith("here");
    const viewer = await server.as("viewer", { projectRoles: [{ project_id: projectId, role: "viewer" }] });

    const { status, body } = await viewer.rest("GET", `/api/v1/secrets?project_id=${projectId.toUpperCase()}`);

    expect(status).to.equal(200);
    expect(body.data).to.have.length(1);
  });

  it("asks the database the same number of times for one secret and for many", async () => {
    const [one, many] = [await projectWith("a"), await projectWith(..."abcdefghij")];
    await list(one);

    const forOne = await statementsOf(server, () => list(one));
    const forMany = await statementsOf(server, () => list(many));

    expect(forMany).to.deep.equal(forOne);
    expect(forMany).to.have.length(1);
  });

  it("answers 404 naming project_id for an unknown project, 400 for none and for a malformed one", async () => {
    const unknown = await list("0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55");
    const missing = await server.admin.rest("GET", "/api/v1/secrets");
    const malformed = await list("default");

    expect(unknown.status).to.equal(404);
    expect(unknown.body.error.details[0].field).to.equal("project_id");
    for (const { status, body } of [missing, malformed]) {
      expect(status).to.equal(400);
      expect(body.error.code).to.equal("VALIDATION_ERROR");
      expect(body.error.details[0].field).to.equal("project_id");
    }
  });
});

describe("Pages of ListSecrets", () => {
  let projectId = "";

  before(async () => {
    projectId = await projectWith("k1", "k2", "k3", "k4", "k5");
  });

  it("neither repeat nor skip, and the last may be short", async () => {
    const pages = [];
    for (const page of ["1", "2", "3"]) pages.push(keysOf(await list(projectId, { page, per_page: "2" })));

    expect(pages).to.deep.equal([["k1", "k2"], ["k3", "k4"], ["k5"]]);
  });

  it("say in body and headers which page it is and how many secrets there are", async () => {
    const { headers, body } = await list(projectId, { page: "2", per_page: "2" });

    expect(body.pagination).to.deep.equal({ page: 2, per_page: 2, total: 5 });
    expect(headers.get("x-total-count")).to.equal("5");
    expect(headers.get("x-page")).to.equal("2");
    expect(headers.get("x-per-page")).to.equal("2");
  });

  it("past the end are empty, with the true total", async () => {
    const { status, body } = await list(projectId, { page: "2147483647", per_page: "100" });

    expect(status).to.equal(200);
    expect(body).to.deep.equal({ data: [], pagination: { page: 2_147_483_647, per_page: 100, total: 5 } });
  });

  it("take limit for per_page, and refuse both when they differ", async () => {
    const alone = await list(projectId, { limit: "3" });
    const same = await list(projectId, { limit: "3", per_page: "3" });
    const differing = await list(projectId, { limit: "3", per_page: "4" });

    expect(alone.body.pagination).to.deep.equal({ page: 1, per_page: 3, total: 5 });
    expect(same.status).to.equal(200);
    expect(differing.status).to.equal(400);
    expect(differing.body.error.details[0].field).to.equal("per_page");
  });

  it("outside the limits are refused by name, never clamped", async () => {
    const cases: [string, string][] = [
      ["page", "0"],
      ["page", "-1"],
      ["page", "1.5"],
      ["page", "one"],
      ["page", ""],
      ["page", "99999999999"],
      ["per_page", "0"],
      ["per_page", "101"],
      ["per_page", "ten"],
      ["limit", "101"],
      ["status", "gone"],
      ["search", "s".repeat(256)],
    ];
    for (const [parameter, text] of cases) {
      const { status, body } = await list(projectId, { [parameter]: text });

      expect(status, `${parameter}=${text}`).to.equal(400);
      const field = parameter === "limit" ? "per_page" : parameter;
      expect(body.error.details[0].field, `${parameter}=${text}`).to.equal(field);
    }
    expect((await list(projectId, { per_page: "100" })).status).to.equal(200);
  });
});
