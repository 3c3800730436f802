import { expect } from "chai";
import pg from "pg";
import type { Answer, Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer();
const users = "/api/v1/users";
const machines = "/api/v1/machine-identities";
const remains = "the organization would be left without an active administrator";

let count = 0;
const newName = (kind: string) => `${kind}-${(count += 1)}`;
/** As an organization's first one. */
const roles = ["admin", "gateway:admin"];
const newAdmin = (by: Client) => server.user(newName("admin"), { roles }, by);

function refuses({ status, body }: Answer, message: string): void {
  expect(status, JSON.stringify(body)).to.equal(409);
  expect(body.error).to.deep.include({ code: "RESOURCE_CONFLICT", message });
}

describe("An organization's last active administrator", () => {
  /** The only administrator of an organization is a machine identity, which `manager` could remove but for the rule. */
  async function organization() {
    const { admin, organizationId } = await server.otherOrganization();
    const { body: everything } = await admin.rest("GET", "/api/v1/permissions");
    const permissions = everything.data.filter((each: string) => !["agent:report", "gateway:connect"].includes(each));
    await admin.rest("POST", "/api/v1/roles", { name: "manager", permissions });
    const manager = await server.as(newName("manager"), ["manager", "gateway:admin"], admin);
    return { admin, manager, organizationId };
  }

  it("is not disabled, deleted or stripped of the role, when it is a machine identity", async () => {
    const { admin, manager } = await organization();
    const at = `${machines}/${admin.id}`;

    refuses(await manager.rest("POST", `${at}/disable`, {}), remains);
    refuses(await manager.rest("DELETE", at), remains);
    refuses(await manager.rest("PUT", at, { roles: ["viewer"] }), remains);
    refuses(await admin.rest("PUT", at, { roles: [] }), remains);

    expect((await admin.rest("GET", at)).body).to.deep.include({ status: "active", roles });
  });

  it("nor when it is a user", async () => {
    const { admin, manager } = await organization();
    const user = await newAdmin(admin);
    await user.rest("DELETE", `${machines}/${admin.id}`);
    const at = `${users}/${user.id}`;

    refuses(await manager.rest("POST", `${at}/disable`, {}), remains);
    refuses(await manager.rest("DELETE", at), remains);
    refuses(await manager.rest("PUT", at, { roles: [] }), remains);

    expect((await user.rest("GET", at)).body).to.deep.include({ status: "active", roles });
  });

  it("changes in everything else, and keeps the role beside others", async () => {
    const { admin } = await organization();

    const { status, body } = await admin.rest("PUT", `${machines}/${admin.id}`, {
      name: "renamed",
      roles: ["viewer", "admin"],
      project_roles: [],
    });

    expect(status).to.equal(200);
    expect(body).to.deep.include({ name: "renamed", roles: ["viewer", "admin"] });
  });

  it("is not replaced by one who is pending, disabled, of a project, or of another organization", async () => {
    const { admin, manager } = await organization();
    const { body: project } = await admin.rest("POST", "/api/v1/projects", { name: "p" });
    await admin.rest("POST", users, { username: newName("pending"), roles: ["admin"] });
    const projectRoles = [{ project_id: project.id, role: "admin" }];
    await server.user(newName("of-project"), { project_roles: projectRoles }, admin);
    const disabled = await newAdmin(admin);
    await admin.rest("POST", `${users}/${disabled.id}/disable`, {});

    const first = await manager.rest("POST", `${machines}/${admin.id}/disable`, {});
    await admin.rest("POST", `${users}/${disabled.id}/enable`, {});
    const second = await manager.rest("POST", `${machines}/${admin.id}/disable`, {});

    refuses(first, remains);
    expect(second.status).to.equal(200);
  });

  it("does not keep others from being disabled and removed", async () => {
    const { admin } = await organization();
    const viewer = await server.user(newName("viewer"), { roles: ["viewer"] }, admin);

    const disabled = await admin.rest("POST", `${users}/${viewer.id}/disable`, {});
    const removed = await admin.rest("DELETE", `${users}/${viewer.id}`);

    expect([disabled.status, removed.status]).to.deep.equal([200, 204]);
  });

  const deeds: [string, (by: Client, path: string) => Promise<Answer>][] = [
    ["disable", (by, path) => by.rest("POST", `${path}/disable`, {})],
    ["delete", (by, path) => by.rest("DELETE", path)],
    ["strip", (by, path) => by.rest("PUT", path, { roles: [] })],
  ];
  for (const [name, deed] of deeds) {
    it(`stays when two ${name} each other at the same moment: one is refused`, async () => {
      const { admin, organizationId } = await organization();
      const user = await newAdmin(admin);
      const holder = new pg.Client(server.databaseUrl);
      await holder.connect();
      await holder.query("begin");
      await holder.query("select 1 from organization where id = $1 for update", [organizationId]);

      const answers = Promise.all([deed(user, `${machines}/${admin.id}`), deed(admin, `${users}/${user.id}`)]);
      await waitForLocks(2);
      await holder.query("commit");
      await holder.end();

      const statuses = (await answers).map(({ status }) => status);
      expect(statuses).to.have.members([name === "delete" ? 204 : 200, 409]);
    });
  }
});

async function waitForLocks(expected: number): Promise<void> {
  for (;;) {
    const [row] = await server.sql(
      "select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    if (row.waiting >= expected) return;
  }
}

describe("Nobody", () => {
  it("disables or deletes themselves, not even beside other administrators", async () => {
    const [user, machine] = [await newAdmin(server.admin), await server.as(newName("admin"), ["admin"])];
    const own = [
      [user, `${users}/${user.id}`],
      [machine, `${machines}/${machine.id}`],
    ] as const;
    for (const [client, path] of own) {
      refuses(await client.rest("POST", `${path}/disable`, {}), "nobody disables themselves");
      refuses(await client.rest("DELETE", path), "nobody deletes themselves");

      expect((await client.rest("GET", path)).body.status).to.equal("active");
    }
  });

  it("is kept from giving up a role of their own", async () => {
    const user = await newAdmin(server.admin);

    const { status, body } = await user.rest("PUT", `${users}/${user.id}`, { roles: ["viewer"] });

    expect([status, body.roles]).to.deep.equal([200, ["viewer"]]);
  });
});
