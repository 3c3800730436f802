import { expect } from "chai";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const path = "/api/v1/keytabs";
const remove = (id: string) => server.admin.rest("DELETE", `${path}/${id}`);

describe("DeleteKeytab", () => {
  it("answers 204, and from then on the keytab is not there", async () => {
    const { id } = await importKeytab(server.admin);

    const { status, body } = await remove(id);

    expect(status).to.equal(204);
    expect(body).to.equal("");
    const requests: [string, string, unknown?][] = [
      ["GET", ""],
      ["PUT", "", { notes: "n" }],
      ["DELETE", ""],
      ["GET", "/download"],
      ["GET", "/download?version=1"],
      ["GET", "/history"],
      ["POST", "/check-compliance", {}],
    ];
    for (const [verb, action, request] of requests) {
      const again = await server.admin.rest(verb, `${path}/${id}${action}`, request);
      expect(again.status, `${verb} ${action}`).to.equal(404);
    }
    expect((await server.admin.rest("GET", path)).body.data.map((each: { id: string }) => each.id)).not.to.include(id);
  });

  it("keeps the versions and their key for the audit, and the event names the keytab and its project", async () => {
    const { id } = await importKeytab(server.admin, newKeytab(), { project_id: server.projectId });

    await remove(id);

    const [kept] = await server.sql(
      `select (select count(*)::int from keytab_version where keytab_id = $1) as versions,
         (select count(*)::int from data_key where record_id = $1) as keys`,
      [id.slice(3)],
    );
    expect(kept).to.deep.equal({ versions: 1, keys: 1 });
    const [event] = await server.sql("select * from audit_event where resource_id = $1 and action = 'keytab.delete'", [
      id,
    ]);
    expect(event).to.include({ outcome: "success", resource_name: "web server", project_id: server.projectId });
  });

  it("lets the same file be imported again, as another keytab", async () => {
    const file = newKeytab();
    const first = await importKeytab(server.admin, file);
    await remove(first.id);

    const second = await importKeytab(server.admin, file);

    expect(second.id).not.to.equal(first.id);
    expect(second).to.include({ keytab_hash: first.keytab_hash, version: 1 });
  });

  it("lets the file be the replacement of another keytab", async () => {
    const file = newKeytab();
    await remove((await importKeytab(server.admin, file)).id);
    const { id } = await importKeytab(server.admin);

    const { status } = await server.admin.rest("PUT", `${path}/${id}`, { keytab_data: file.toString("base64") });

    expect(status).to.equal(200);
  });
});

describe("A project that holds keytabs", () => {
  it("does not go before they are deleted", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "with keytabs" });
    const { id } = await importKeytab(server.admin, newKeytab(), { project_id: project.id });
    const at = `/api/v1/projects/${project.id}`;

    const refused = await server.admin.rest("DELETE", at);
    await remove(id);
    const removed = await server.admin.rest("DELETE", at);

    expect(refused.status).to.equal(409);
    expect(refused.body.error).to.include({ code: "RESOURCE_CONFLICT", message: "the project holds keytabs" });
    expect(removed.status).to.equal(204);
  });
});
