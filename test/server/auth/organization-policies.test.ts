import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const server = useServer();
let admin: Client;
let path: string;
beforeEach(async () => {
  const other = await server.otherOrganization();
  admin = other.admin;
  path = `/api/v1/organizations/${other.organizationId}`;
});

const usualPasswords = {
  min_length: 8,
  max_length: 1024,
  require_uppercase: false,
  require_lowercase: false,
  require_numbers: false,
  require_special: false,
};
const usualSessions = { max_idle_timeout_minutes: 30 };
const policies = ({ password_policy, session_policy }: Record<string, unknown>) => ({
  password_policy,
  session_policy,
});
async function setPolicies(fields: Record<string, unknown>) {
  const { status, body } = await admin.rest("PUT", path, fields);
  expect(status, JSON.stringify(body)).to.equal(200);
  return policies(body);
}

describe("The policies of an organization", () => {
  it("are the usual ones until they are set, and are told to all its identities", async () => {
    const viewer = await server.as("policy-viewer", ["viewer"], admin);

    const { body: own } = await viewer.rest("GET", path);
    const { body: list } = await viewer.rest("GET", "/api/v1/organizations");

    const usual = { password_policy: usualPasswords, session_policy: usualSessions };
    expect(policies(own)).to.deep.equal(usual);
    expect(policies(list.data[0])).to.deep.equal(usual);
  });

  it("are changed field by field, and by nothing that is not mentioned", async () => {
    const first = await setPolicies({ password_policy: { min_length: 14, require_numbers: true } });
    const second = await setPolicies({ password_policy: { max_length: 64, require_numbers: false, min_length: null } });
    const third = await setPolicies({ session_policy: { max_idle_timeout_minutes: 10 } });
    const fourth = await setPolicies({ name: `renamed-${Math.random()}`, password_policy: {}, session_policy: null });

    const changed = { ...usualPasswords, min_length: 14, require_numbers: true };
    expect(first).to.deep.equal({ password_policy: changed, session_policy: usualSessions });
    const again = { ...usualPasswords, min_length: 14, max_length: 64 };
    expect(second).to.deep.equal({ password_policy: again, session_policy: usualSessions });
    const all = { password_policy: again, session_policy: { max_idle_timeout_minutes: 10 } };
    expect([third, fourth]).to.deep.equal([all, all]);
    expect(policies((await admin.rest("GET", path)).body)).to.deep.equal(all);
  });

  it("keep both of two changes that are made at once", async () => {
    await Promise.all([
      setPolicies({ password_policy: { min_length: 14 } }),
      setPolicies({ password_policy: { require_special: true } }),
      setPolicies({ session_policy: { max_idle_timeout_minutes: 5 } }),
    ]);

    expect(policies((await admin.rest("GET", path)).body)).to.deep.equal({
      password_policy: { ...usualPasswords, min_length: 14, require_special: true },
      session_policy: { max_idle_timeout_minutes: 5 },
    });
  });

  const refused: [why: string, fields: Record<string, unknown>, field: string][] = [
    ["a shortest length below 8", { password_policy: { min_length: 7 } }, "password_policy.min_length"],
    ["a longest length above 1024", { password_policy: { max_length: 1025 } }, "password_policy.max_length"],
    [
      "a shortest length above the longest",
      { password_policy: { min_length: 20, max_length: 19 } },
      "password_policy.min_length",
    ],
    [
      "a longest length below the shortest that stands",
      { password_policy: { max_length: 11 } },
      "password_policy.max_length",
    ],
    ["a length that is no integer", { password_policy: { min_length: 9.5 } }, "password_policy.min_length"],
    [
      "no idle time at all",
      { session_policy: { max_idle_timeout_minutes: 0 } },
      "session_policy.max_idle_timeout_minutes",
    ],
    [
      "more than the longest idle time",
      { session_policy: { max_idle_timeout_minutes: 31 } },
      "session_policy.max_idle_timeout_minutes",
    ],
  ];
  for (const [why, fields, field] of refused) {
    it(`refuse ${why}, and stay as they are`, async () => {
      const before = await setPolicies({ password_policy: { min_length: 12 } });

      const { status, body } = await admin.rest("PUT", path, { name: `renamed-${Math.random()}`, ...fields });

      expect(status).to.equal(400);
      expect(body.error.details.map((fault: { field: string }) => fault.field)).to.deep.equal([field]);
      const { body: after } = await admin.rest("GET", path);
      expect(policies(after)).to.deep.equal(before);
      expect(after.name).not.to.match(/^renamed/);
    });
  }

  it("are changed by administrators only, and are recorded with what was changed", async () => {
    const editor = await server.as("policy-editor", ["editor"], admin);

    const denied = await editor.rest("PUT", path, { session_policy: { max_idle_timeout_minutes: 10 } });
    await setPolicies({ password_policy: { min_length: 14 }, session_policy: { max_idle_timeout_minutes: 10 } });

    expect(denied.status).to.equal(403);
    const { body } = await admin.rest("GET", "/api/v1/audit-logs?action=organization.update&outcome=success");
    expect(body.data[0].details).to.deep.equal({
      password_policy: { min_length: 14 },
      session_policy: { max_idle_timeout_minutes: 10 },
    });
  });
});

describe("The session policy", () => {
  const beginSession = async (by: Client) => {
    const { status, headers } = await by.rest("POST", "/api/v1/auth/session");
    expect(status).to.equal(201);
    const cookie = headers
      .getSetCookie()
      .map((each) => each.split(";")[0])
      .join("; ");
    return (url = server.url) => new Client(url, undefined).rest("GET", "/api/v1/whoami", undefined, { cookie });
  };
  const idleFor = (seconds: number) =>
    server.sql("update session set last_used_at = now() - $1 * interval '1 second'", [seconds]);

  it("ends sessions of the organization's identities that are idle for longer, and no others", async () => {
    const ours = await beginSession(admin);
    const others = await beginSession(await server.login(server.clientId, server.clientSecret));
    await setPolicies({ session_policy: { max_idle_timeout_minutes: 10 } });
    await idleFor(10 * 60 + 1);
    const replica = await server.startReplica(); // which remembers nothing yet

    const [ended, goesOn] = [await ours(urlOf(replica)), await others(urlOf(replica))];

    expect([ended.status, ended.body.error.code]).to.deep.equal([401, "AUTH_EXPIRED"]);
    expect(goesOn.status).to.equal(200);
  });

  it("holds on every replica as soon as it is changed, for sessions that have begun too", async () => {
    const replica = await server.startReplica();
    const session = await beginSession(admin);
    await idleFor(5 * 60 + 1);
    expect((await session(urlOf(replica))).status).to.equal(200);
    await sleep(100); // The use is noted beside the call.
    await idleFor(5 * 60 + 1);

    await setPolicies({ session_policy: { max_idle_timeout_minutes: 5 } });

    expect((await session(urlOf(replica))).body.error?.code).to.equal("AUTH_EXPIRED");
  });

  it("keeps a session that is used, however short it is", async () => {
    await setPolicies({ session_policy: { max_idle_timeout_minutes: 1 } });
    const session = await beginSession(admin);
    await idleFor(50);

    expect((await session()).status).to.equal(200);

    const isNoted = async () => {
      const [{ noted }] = await server.sql(
        "select last_used_at > now() - interval '10 seconds' as noted from session order by created_at desc limit 1",
      );
      return noted;
    };
    for (let tries = 0; tries < 50 && !(await isNoted()); tries += 1) await sleep(20);
    expect(await isNoted()).to.equal(true);
  });
});

describe("The password policy", () => {
  const policy = { ...usualPasswords, min_length: 14, require_special: true };
  const enrollment = "/api/v1/auth/srp/enrollment";
  const newUser = async (username: string) =>
    (await admin.rest("POST", "/api/v1/users", { username, roles: ["viewer"] })).body.enrollment_token as string;

  it("is told to whoever holds an enrollment token, before and as often as they like", async () => {
    const token = await newUser("Dora");
    await setPolicies({ password_policy: { min_length: 14, require_special: true } });

    for (let round = 0; round < 2; round += 1) {
      const { status, body } = await server.anonymous.rest("POST", enrollment, {
        username: "Dora",
        enrollment_token: token,
      });

      expect(status).to.equal(200);
      expect(body).to.deep.equal({ username: "dora", password_policy: policy });
    }
  });

  it("is told to nobody else, who is recorded as for an enrollment", async () => {
    const erin = await newUser("erin");
    await newUser("frank");
    const expired = await newUser("gina");
    await server.sql("update user_account set enrollment_expires_at = now() where username = 'gina'");
    const codeOf = async (username: string, enrollment_token: string) => {
      const { status, body } = await server.anonymous.rest("POST", enrollment, { username, enrollment_token });
      return `${status} ${body.error.code}`;
    };

    expect([
      await codeOf("erin", "hfe_wrong"),
      await codeOf("frank", erin),
      await codeOf("nobody", erin),
      await codeOf("gina", expired),
    ]).to.deep.equal(["401 AUTH_INVALID", "401 AUTH_INVALID", "401 AUTH_INVALID", "401 AUTH_EXPIRED"]);
    const { body } = await admin.rest("GET", "/api/v1/audit-logs?action=user.enroll&outcome=denied");
    expect(body.data.map((event: { resource: { name: string } }) => event.resource.name)).to.have.members([
      "erin",
      "frank",
      "gina",
    ]);
  });
});
