import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { Configurations, configPath } from "./configurations.ts";

const server = useServer({ GATEWAY_VERIFY_INTERVAL_SECONDS: "0" });
const configurations = new Configurations(server);

/** An identity that holds these permissions and nothing else, in the project named or at the organization. */
async function holder(permissions: readonly string[], projectId?: string): Promise<Client> {
  const role = `role-${randomUUID().slice(0, 8)}`;
  await server.admin.rest("POST", "/api/v1/roles", { name: role, permissions });
  const held = projectId === undefined ? { roles: [role] } : { projectRoles: [{ project_id: projectId, role }] };
  return server.as(`identity-${randomUUID().slice(0, 8)}`, held);
}

interface Operation {
  readonly name: string;
  readonly permission: string;
  readonly action: string;
  readonly call: (by: Client, ids: { secret: string; config: string }) => ReturnType<Client["rest"]>;
}

const operations: readonly Operation[] = [
  {
    name: "read the configuration",
    permission: "rotation:read",
    action: "rotation_config.read",
    call: (by, { secret }) => by.rest("GET", configPath(secret)),
  },
  {
    name: "change the configuration",
    permission: "rotation:write",
    action: "rotation_config.update",
    call: (by, { secret }) => by.rest("PUT", configPath(secret), { enabled: true }),
  },
  {
    name: "list the tasks",
    permission: "rotation:read",
    action: "rotation_config.list_tasks",
    call: (by, { config }) => by.rest("GET", `/api/v1/rotation/configs/${config}/tasks`),
  },
];

describe("Rotation configurations", () => {
  for (const { name, permission, action, call } of operations) {
    it(`take ${permission} to ${name}, at the organization or at the secret's project`, async () => {
      const { secret, config } = await configurations.of();
      const ids = { secret: secret.id, config: config.id };
      const { body: other } = await server.admin.rest("POST", "/api/v1/projects", { name: `other-${randomUUID()}` });
      const others = ["secret:read", "secret:write", "rotation:read", "rotation:write", "rotation:execute"].filter(
        (each) => each !== permission,
      );
      const [everywhere, here, elsewhere, without] = [
        await holder([permission]),
        await holder([permission], server.projectId),
        await holder([permission], other.id),
        await holder(others),
      ];

      for (const by of [everywhere, here]) expect((await call(by, ids)).status).to.equal(200);
      for (const by of [elsewhere, without]) {
        const { status, body } = await call(by, ids);

        expect([status, body.error.code]).to.deep.equal([403, "PERMISSION_DENIED"]);
        const events = await server.sql("select outcome from audit_event where action = $1 and actor_id = $2", [
          action,
          by.id,
        ]);
        expect(events).to.deep.equal([{ outcome: "denied" }]);
      }
    });

    it(`of another organization are not there for whoever would ${name}`, async () => {
      const { secret, config } = await configurations.of();
      const { admin } = await server.otherOrganization();

      const { status, body } = await call(admin, { secret: secret.id, config: config.id });

      expect([status, body.error.code]).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
    });
  }

  it("take rotation:execute as well to rotate at once", async () => {
    const { id } = await server.secret();
    const writer = await holder(["rotation:write"]);
    const both = await holder(["rotation:write", "rotation:execute"], server.projectId);

    const refused = await configurations.put(id, { enabled: true, rotate_immediately: true }, writer);
    const before = await configurations.get(id);
    const done = await configurations.put(id, { enabled: true, rotate_immediately: true }, both);

    expect([refused.status, before.enabled]).to.deep.equal([403, false]);
    expect([done.status, done.body.last_status]).to.deep.equal([200, "succeeded"]);
  });

  it("take a CSRF token from a console session", async () => {
    const { config } = await configurations.of();
    const { headers, body } = await server.admin.rest("POST", "/api/v1/auth/session", {});
    const cookie = headers
      .getSetCookie()
      .map((each) => each.split(";", 1)[0])
      .join("; ");
    const execute = `/api/v1/rotation/configs/${config.id}/execute`;
    for (const [verb, path] of [
      ["PUT", configPath(config.secret_id)],
      ["POST", execute],
    ] as const) {
      const without = await server.anonymous.rest(verb, path, {}, { cookie });
      const withToken = await server.anonymous.rest(verb, path, {}, { cookie, "x-csrf-token": body.csrf_token });

      expect([without.status, without.body.error.code], path).to.deep.equal([403, "CSRF_INVALID"]);
      expect(withToken.status, path).to.equal(200);
    }
  });
});
