import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { importKeytab, type KeytabParts, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { statementsOf } from "../secrets/statements.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const path = "/api/v1/keytabs";

async function list(query = "", by: Client = server.admin) {
  const { status, body } = await by.rest("GET", `${path}?${query}`);
  expect(status, JSON.stringify(body)).to.equal(200);
  return body as { data: { id: string; name: string }[]; total: number; page: number; limit: number };
}

const named = (name: string, parts: KeytabParts = {}, fields: Record<string, unknown> = {}) =>
  importKeytab(server.admin, newKeytab(parts), { name, ...fields });

const namesOf = async (query: string, by?: Client) => (await list(query, by)).data.map(({ name }) => name);

describe("ListKeytabs", () => {
  let otherProjectId = "";

  before(async () => {
    expect(await list()).to.deep.equal({ data: [], total: 0, page: 1, limit: 25 });
    otherProjectId = (await server.admin.rest("POST", "/api/v1/projects", { name: "another" })).body.id;
    await named("first", { principal: "host/a.example.com", enctypes: [18, 23] });
    await named(
      "second",
      { principal: "HTTP/100%.example.com", realm: "AD.EXAMPLE.COM" },
      { project_id: server.projectId },
    );
    await named(
      "third",
      { principal: "nfs/b_c", realm: "ad.example.com", enctypes: [3] },
      { project_id: otherProjectId },
    );
    await named("over", { principal: "SQL/é" }, { expires_at: "2020-01-01T00:00:00Z" });
    const { id } = await named("off", {}, { expires_at: "2040-01-01T00:00:00Z" });
    await server.admin.rest("PUT", `${path}/${id}`, { status: "disabled" });
    const gone = await named("gone", { principal: "host/gone" });
    await server.admin.rest("DELETE", `${path}/${gone.id}`);
    const other = await server.otherOrganization();
    await importKeytab(other.admin, newKeytab({ principal: "host/theirs" }), { name: "theirs" });
  });

  it("lists what is not deleted, newest first", async () => {
    const { data, ...rest } = await list();

    expect(data.map(({ name }) => name)).to.deep.equal(["off", "over", "third", "second", "first"]);
    expect(rest).to.deep.equal({ total: 5, page: 1, limit: 25 });
  });

  it("leaves out of each item exactly what the specification names", async () => {
    const { data } = await list("principal=100");

    const { body } = await server.admin.rest("GET", `${path}/${data[0]?.id}`);
    for (const field of ["organization_id", "project_id", "storage_mode", "offload_status", "keytab_hash", "notes"]) {
      expect(body).to.have.property(field);
      delete body[field];
    }
    expect(data).to.deep.equal([body]);
  });

  it("filters by each of its parameters, and by all at once", async () => {
    const cases: Record<string, string[]> = {
      "status=active": ["third", "second", "first"],
      "status=disabled": ["off"],
      "status=expired": ["over"],
      "cipher_compliance=compliant": ["off", "over", "second"],
      "cipher_compliance=warning": ["first"],
      "cipher_compliance=non_compliant": ["third"],
      "realm=AD.EXAMPLE.COM": ["third", "second"],
      "realm=ad.Example.com": ["third", "second"],
      "realm=AD.EXAMPLE": [],
      "principal=EXAMPLE": ["off", "over", "third", "second", "first"],
      "principal=http": ["off", "second"],
      "principal=0%25.e": ["second"],
      "principal=b_c": ["third"],
      "principal=a_c": [],
      "principal=sql/%C3%89": ["over"],
      "principal=gone": [],
      "principal=theirs": [],
      "source=import": ["off", "over", "third", "second", "first"],
      "source=discovered": [],
      "source=agent": [],
      [`project_id=${server.projectId}`]: ["second"],
      [`project_id=${otherProjectId}&status=active&cipher_compliance=non_compliant&realm=AD.EXAMPLE.com&principal=nfs&source=import`]:
        ["third"],
      [`project_id=${otherProjectId}&status=disabled`]: [],
    };
    for (const [query, names] of Object.entries(cases)) {
      const { data, total } = await list(query);

      expect(
        data.map(({ name }) => name),
        query,
      ).to.deep.equal(names);
      expect(total, query).to.equal(names.length);
    }
  });

  it("shows by pages, and says how many there are also past the last one", async () => {
    const { data, ...rest } = await list("page=2&limit=2");

    expect(data.map(({ name }) => name)).to.deep.equal(["third", "second"]);
    expect(rest).to.deep.equal({ total: 5, page: 2, limit: 2 });
    expect(await list("page=9&limit=2")).to.deep.equal({ data: [], total: 5, page: 9, limit: 2 });
    expect(await list("per_page=1")).to.deep.include({ limit: 1, total: 5 });
    const { headers } = await server.admin.rest("GET", `${path}?page=2&limit=2`);
    expect(["x-total-count", "x-page", "x-per-page"].map((name) => headers.get(name))).to.deep.equal(["5", "2", "2"]);
  });

  it("neither repeats nor skips what was imported in the same instant", async () => {
    const { organizationId, admin } = await server.otherOrganization();
    await server.sql(
      `insert into keytab (organization_id, name, principal, realm, kvno, encryption_types, cipher_compliance, source,
         entry_count, keytab_hash)
       select $1, n::text, 'a@R', 'R', 1, '{}', 'compliant', 'import', 1, n::text from generate_series(1, 45) n`,
      [organizationId],
    );

    const pages = await Promise.all([1, 2, 3, 4, 5].map((page) => namesOf(`limit=10&page=${page}`, admin)));

    expect(pages.map(({ length }) => length)).to.deep.equal([10, 10, 10, 10, 5]);
    expect(new Set(pages.flat()).size).to.equal(45);
  });

  it("refuses what is no filter of its kind, naming the parameter", async () => {
    const cases: Record<string, string> = {
      "status=deleted": "status",
      "status=": "status",
      "cipher_compliance=good": "cipher_compliance",
      "source=upload": "source",
      "project_id=default": "project_id",
      "page=0": "page",
      "page=two": "page",
      "limit=0": "limit",
      "limit=101": "limit",
      "limit=10&per_page=20": "limit",
      "principal=%00": "principal",
    };
    for (const [query, field] of Object.entries(cases)) {
      const { status, body } = await server.admin.rest("GET", `${path}?${query}`);

      expect(status, query).to.equal(400);
      expect(
        body.error.details.map((each: { field: string }) => each.field),
        query,
      ).to.deep.equal([field]);
    }
  });

  it("is 404 for a project that is not there for the caller", async () => {
    const other = await server.otherOrganization();
    for (const projectId of ["00000000-0000-7000-8000-000000000000", other.projectId]) {
      const { status, body } = await server.admin.rest("GET", `${path}?project_id=${projectId}`);

      expect(status).to.equal(404);
      expect(body.error.details[0].field).to.equal("project_id");
    }
  });

  it("shows one who may read a project's the keytabs of that project, and not those of none", async () => {
    const client = await server.as("reader", { projectRoles: [{ project_id: server.projectId, role: "viewer" }] });

    expect(await namesOf("", client)).to.deep.equal(["second"]);
    expect(await namesOf("status=active", client)).to.deep.equal(["second"]);
    expect(await namesOf(`project_id=${server.projectId}`, client)).to.deep.equal(["second"]);
    const { status } = await client.rest("GET", `${path}?project_id=${otherProjectId}`);
    expect(status).to.equal(403);
  });

  it("counts and lists in one statement", async () => {
    const statements = await statementsOf(server, () => list("principal=example&status=active"));

    expect(statements.filter((text) => text.includes("keytab"))).to.have.length(1);
  });
});
