import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();

const eventsOf = (requestId: string) =>
  server.sql("select * from audit_event where request_id = $1 order by id", [requestId]);

let count = 0;
/** Sends a request under an id of its own, and answers what was recorded under it. */
async function recorded(verb: string, path: string, body?: unknown, by = server.admin) {
  count += 1;
  const requestId = `recorded-${count}`;
  const { status } = await by.rest(verb, path, body, { "x-request-id": requestId });
  return { status, events: await eventsOf(requestId) };
}

describe("The audit log", () => {
  it("records every successful change and read of a value under its name in the catalogue", async () => {
    const at = (id: string, action = "") => `/api/v1/secrets/${id}${action}`;
    const { id } = await server.secret();
    const { id: other } = await server.secret();
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "p" });
    const { body: identity } = await server.admin.rest("POST", "/api/v1/machine-identities", { name: "m" });
    const identityPath = `/api/v1/machine-identities/${identity.id}`;
    const { body: secret } = await server.admin.rest("POST", `${identityPath}/client-secrets`, {});
    const { projectId } = server;

    const cases: [string, string, unknown, string[]][] = [
      ["POST", "/api/v1/secrets", { project_id: projectId, key: "audited", value: "v" }, ["secret.create"]],
      ["GET", at(id), undefined, ["secret.read_value"]],
      ["GET", at(id, "?view=metadata"), undefined, []],
      ["GET", `/api/v1/secrets?project_id=${projectId}`, undefined, []],
      ["GET", at(id, "/versions"), undefined, []],
      ["PUT", at(id), { value: "w" }, ["secret.update"]],
      ["POST", at(id, "/rollback"), { version: 1 }, ["secret.rollback"]],
      ["POST", at(id, "/copy"), { key: "audited-copy" }, ["secret.copy", "secret.read_value"]],
      ["POST", at(id, "/archive"), undefined, ["secret.archive"]],
      ["POST", at(id, "/restore"), undefined, ["secret.restore"]],
      ["DELETE", at(id), undefined, ["secret.delete"]],
      ["DELETE", at(other, "/permanent"), undefined, ["secret.permanent_delete"]],
      ["POST", "/api/v1/projects", { name: "q" }, ["project.create"]],
      ["PUT", `/api/v1/projects/${project.id}`, { name: "r" }, ["project.update"]],
      ["GET", "/api/v1/projects", undefined, []],
      ["DELETE", `/api/v1/projects/${project.id}`, undefined, ["project.delete"]],
      ["POST", "/api/v1/organizations", { name: "o" }, ["organization.create"]],
      ["POST", "/api/v1/machine-identities", { name: "n" }, ["machine_identity.create"]],
      ["PUT", identityPath, { roles: ["viewer"] }, ["machine_identity.update"]],
      ["POST", `${identityPath}/client-secrets`, {}, ["machine_identity.create_client_secret"]],
      ["DELETE", `${identityPath}/client-secrets/${secret.id}`, undefined, ["machine_identity.revoke_client_secret"]],
      ["DELETE", identityPath, undefined, ["machine_identity.delete"]],
      ["GET", "/api/v1/audit-logs", undefined, []],
    ];
    for (const [verb, path, body, expected] of cases) {
      const { status, events } = await recorded(verb, path, body);

      expect(status, `${verb} ${path}`).to.be.within(200, 204);
      expect(
        events.map(({ action }) => action),
        `${verb} ${path}`,
      ).to.have.members(expected);
      for (const event of events) {
        expect(event).to.include({ outcome: "success", actor_id: server.admin.id, actor_type: "machine_identity" });
        expect(event.resource_id, event.action).to.be.a("string");
        expect(event.resource_name, event.action).to.be.a("string");
      }
    }
  });

  it("records denied and failed attempts with outcome and reason code", async () => {
    const { id, key } = await server.secret();
    const viewer = await server.as("viewer", ["viewer"]);
    const { projectId } = server;
    const unknown = "/api/v1/secrets/0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

    const cases: [string, string, unknown, typeof viewer, string, string, string][] = [
      ["PUT", `/api/v1/secrets/${id}`, { value: "x" }, viewer, "secret.update", "denied", "PERMISSION_DENIED"],
      ["GET", "/api/v1/audit-logs", undefined, viewer, "audit.list", "denied", "PERMISSION_DENIED"],
      ["GET", unknown, undefined, viewer, "secret.read_value", "failure", "RESOURCE_NOT_FOUND"],
      [
        ...(["POST", "/api/v1/secrets", { project_id: projectId, key, value: "x" }, server.admin] as const),
        ...(["secret.create", "failure", "RESOURCE_CONFLICT"] as const),
      ],
      ["PUT", `/api/v1/secrets/${id}`, { value: 5 }, server.admin, "secret.update", "failure", "VALIDATION_ERROR"],
      ["POST", `/api/v1/secrets/${id}/restore`, {}, server.admin, "secret.restore", "failure", "RESOURCE_CONFLICT"],
    ];
    for (const [verb, path, body, by, action, outcome, reason] of cases) {
      const { events } = await recorded(verb, path, body, by);

      expect(events, `${verb} ${path}`).to.have.length(1);
      expect(events[0]).to.include({ action, outcome, reason, actor_id: by.id, actor_type: "machine_identity" });
    }
  });

  it("keeps the attempt but not the change of a call that failed half-way", async () => {
    const { body: source } = await server.admin.rest("POST", "/api/v1/secrets", {
      project_id: server.projectId,
      key: "half-way",
      value: "v",
    });

    const { status, events } = await recorded("POST", `/api/v1/secrets/${source.id}/copy`, { key: "half-way" });

    expect(status).to.equal(409);
    expect(events.map(({ action, outcome }) => `${action} ${outcome}`)).to.deep.equal(["secret.copy failure"]);
  });

  it("tells agents and gateways from other machines by their role", async () => {
    const kinds = [
      ["agent", "agent"],
      ["gateway", "gateway"],
      ["viewer", "machine_identity"],
    ] as const;
    for (const [role, type] of kinds) {
      const somebody = await server.as(`a-${role}`, [role]);

      const { events } = await recorded("GET", "/api/v1/audit-logs", undefined, somebody);

      expect(events, role).to.have.length(1);
      expect(events[0], role).to.include({ actor_type: type, actor_id: somebody.id, outcome: "denied" });
      const { body } = await server.admin.rest("GET", `/api/v1/audit-logs/${events[0].id}`);
      expect(body.actor, role).to.deep.equal({ type, id: somebody.id, name: `a-${role}` });
    }
  });
});
