import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();

describe("Another organization", () => {
  let eve: Client;
  let theirOrganizationId = "";
  let theirProjectId = "";
  let organizationId = "";

  before(async () => {
    const other = await server.otherOrganization();
    eve = other.admin;
    theirOrganizationId = other.organizationId;
    theirProjectId = other.projectId;
    organizationId = (await server.admin.rest("GET", "/api/v1/organizations")).body.data[0].id;
  });

  /** Everything that the first organization has, as it is stored. */
  const stored = () =>
    server.sql(
      `select (select json_agg(s order by s.id) from secret s where organization_id = $1) as secrets,
         (select json_agg(v order by v.secret_id, v.version) from secret_version v where organization_id = $1) as versions,
         (select json_agg(p order by p.id) from project p where organization_id = $1) as projects,
         (select json_agg(m order by m.id) from machine_identity m where organization_id = $1) as identities,
         (select json_agg(c order by c.id) from client_secret c where organization_id = $1) as client_secrets,
         (select json_agg(b order by b.id) from role_binding b where organization_id = $1) as bindings,
         (select json_agg(o) from organization o where id = $1) as organization`,
      [organizationId],
    );

  it("gets 404 for every id of ours, whatever it asks, and changes nothing", async () => {
    const states = {
      active: await server.secret(),
      archived: await server.secret(),
      deleted: await server.secret(),
    };
    await server.admin.rest("POST", `/api/v1/secrets/${states.archived.id}/archive`);
    await server.admin.rest("DELETE", `/api/v1/secrets/${states.deleted.id}`);
    const identity = (await server.admin.rest("GET", "/api/v1/machine-identities")).body.data[0];
    const secretsPath = `/api/v1/machine-identities/${identity.id}/client-secrets`;
    const clientSecret = (await server.admin.rest("GET", secretsPath)).body.data[0];
    const secretRequests = Object.values(states).flatMap(({ id }): [string, string, unknown?][] => [
      ["GET", `/api/v1/secrets/${id}`],
      ["GET", `/api/v1/secrets/${id}?view=metadata`],
      ["PUT", `/api/v1/secrets/${id}`, { value: "eve" }],
      ["DELETE", `/api/v1/secrets/${id}`],
      ["GET", `/api/v1/secrets/${id}/versions`],
      ["POST", `/api/v1/secrets/${id}/rollback`, { version: 1 }],
      ["POST", `/api/v1/secrets/${id}/copy`, { target_project_id: theirProjectId }],
      ["POST", `/api/v1/secrets/${id}/archive`],
      ["POST", `/api/v1/secrets/${id}/restore`],
      ["DELETE", `/api/v1/secrets/${id}/permanent`],
    ]);
    const { projectId } = server;
    const requests: [string, string, unknown?][] = [
      ...secretRequests,
      ["GET", `/api/v1/secrets?project_id=${projectId}`],
      ["POST", "/api/v1/secrets", { project_id: projectId, key: "eve", value: "eve" }],
      ["GET", `/api/v1/projects/${projectId}`],
      ["PUT", `/api/v1/projects/${projectId}`, { name: "eve" }],
      ["DELETE", `/api/v1/projects/${projectId}`],
      ["GET", `/api/v1/organizations/${organizationId}`],
      ["PUT", `/api/v1/organizations/${organizationId}`, { name: "eve" }],
      ["GET", `/api/v1/machine-identities/${identity.id}`],
      ["PUT", `/api/v1/machine-identities/${identity.id}`, { name: "eve" }],
      ["DELETE", `/api/v1/machine-identities/${identity.id}`],
      ["GET", secretsPath],
      ["POST", secretsPath, {}],
      ["DELETE", `${secretsPath}/${clientSecret.id}`],
      [
        "POST",
        "/api/v1/machine-identities",
        { name: "eve", project_roles: [{ project_id: projectId, role: "viewer" }] },
      ],
    ];
    const before = await stored();

    for (const [verb, path, request] of requests) {
      const { status, body } = await eve.rest(verb, path, request);

      expect(status, `${verb} ${path} ${JSON.stringify(body)}`).to.equal(404);
      expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
    }
    expect(await stored()).to.deep.equal(before);
  });

  it("cannot copy its own secret into a project of ours", async () => {
    const theirs = await server.secret({ project_id: theirProjectId }, eve);

    const { status } = await eve.rest("POST", `/api/v1/secrets/${theirs.id}/copy`, {
      target_project_id: server.projectId,
    });

    expect(status).to.equal(404);
  });

  it("gets the same answer for what is ours as for what is not there at all", async () => {
    const { id } = await server.secret();

    const ours = await eve.rest("GET", `/api/v1/secrets/${id}`);
    const nothing = await eve.rest("GET", "/api/v1/secrets/0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55");

    const without = ({ body }: typeof ours) => ({ ...body.error, request_id: "" });
    expect(without(ours)).to.deep.equal(without(nothing));
  });

  it("sees nothing of ours in any list", async () => {
    await server.secret();
    const { admin: mallory } = await server.otherOrganization();
    for (const path of ["projects", "machine-identities", "organizations", "audit-logs?per_page=100"]) {
      const { status, body } = await mallory.rest("GET", `/api/v1/${path}`);

      expect(status, path).to.equal(200);
      expect(body.data, path).not.to.deep.equal([]);
      const text = JSON.stringify(body);
      for (const id of [organizationId, server.projectId, server.admin.id]) expect(text, path).not.to.include(id);
    }
  });

  it("finds nothing of ours in the audit log by any filter", async () => {
    const { id, key } = await server.secret();
    const { admin: mallory } = await server.otherOrganization();

    for (const query of [
      `resource_id=${id}`,
      `actor_id=${server.admin.id}`,
      `project_id=${server.projectId}`,
      `search=${key}`,
    ]) {
      const { body } = await mallory.rest("GET", `/api/v1/audit-logs?${query}`);
      expect(body.pagination.total, query).to.equal(0);
    }
  });

  it("may use the same names and keys as ours", async () => {
    const { key } = await server.secret();
    const name = `shared-${Math.random()}`;

    const project = { name };
    const statuses = [];
    for (const by of [server.admin, eve]) {
      statuses.push((await by.rest("POST", "/api/v1/projects", project)).status);
      statuses.push((await by.rest("POST", "/api/v1/machine-identities", project)).status);
    }
    statuses.push((await eve.rest("POST", "/api/v1/secrets", { project_id: theirProjectId, key, value: "v" })).status);

    expect(statuses).to.deep.equal(Array(5).fill(201));
  });

  it("records its failed attempts in its own audit log, and none of them in ours", async () => {
    const { id } = await server.secret();
    const { body } = await eve.rest("GET", `/api/v1/secrets/${id}`);

    const [event] = await server.sql("select organization_id, outcome from audit_event where request_id = $1", [
      body.error.request_id,
    ]);

    expect(event).to.deep.equal({ organization_id: theirOrganizationId, outcome: "failure" });
  });
});
