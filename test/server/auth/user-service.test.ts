import { expect } from "chai";
import { UserService } from "../../../gen/ts/holdfast/auth/v1/user_service_pb.ts";
import { enroll, loginAs, tryPassword } from "../../harness/person.ts";
import { useServer, usualPassword } from "../../harness/server.ts";

const server = useServer();
const path = "/api/v1/users";
const recordKeys = [
  "id organization_id username email display_name status roles project_roles rate_limit_per_minute",
  "enrollment_expires_at last_authenticated_at created_at updated_at",
].flatMap((line) => line.split(" "));
const tokenPattern = /^hfe_[A-Za-z0-9_-]{43}$/;

let count = 0;
const newName = () => `user-${(count += 1)}`;
const create = (fields: Record<string, unknown> = {}) =>
  server.admin.rest("POST", path, { username: newName(), ...fields });
const put = (id: string, body: unknown) => server.admin.rest("PUT", `${path}/${id}`, body);
const act = (id: string, verb: string) => server.admin.rest("POST", `${path}/${id}/${verb}`, {});
const stored = async (id: string) => (await server.sql("select * from user_account where id = $1", [id]))[0];

describe("A user", () => {
  it("is created with 201 and a Location, pending until a password is set", async () => {
    const { status, headers, body } = await create({ username: "alice" });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`${path}/${body.id}`);
    expect(body).to.have.all.keys(...recordKeys, "enrollment_token");
    expect(body).to.deep.include({
      username: "alice",
      email: null,
      display_name: "alice",
      status: "pending",
      roles: [],
      project_roles: [],
      rate_limit_per_minute: null,
      last_authenticated_at: null,
    });
  });

  it("keeps what it is given, each role once", async () => {
    const projectRole = { project_id: server.projectId, role: "editor" };
    const given = { email: "bob@example.com", display_name: "Bob B.", rate_limit_per_minute: 1000 };

    const { body } = await create({
      ...given,
      roles: ["viewer", "auditor", "viewer"],
      project_roles: [projectRole, projectRole],
    });

    expect(body).to.deep.include({ ...given, roles: ["viewer", "auditor"], project_roles: [projectRole] });
    const { enrollment_token: _, ...record } = body;
    expect((await server.admin.rest("GET", `${path}/${body.id}`)).body).to.deep.equal(record);
  });

  it("has a username in lower case, of its own in the installation; whose it is, nobody is told", async () => {
    const { admin: theirs } = await server.otherOrganization();
    const { body: user } = await create({ username: "Carol@Example.com" });

    const here = await create({ username: "carol@EXAMPLE.com" });
    const there = await theirs.rest("POST", path, { username: "carol@example.com" });

    expect(user.username).to.equal("carol@example.com");
    for (const { status, body } of [here, there]) {
      expect(status).to.equal(409);
      expect(body.error.details).to.deep.equal([{ field: "username", message: "is taken" }]);
    }
    expect({ ...there.body.error, request_id: "" }).to.deep.equal({ ...here.body.error, request_id: "" });
  });

  it("is refused with anything outside the limits, by name", async () => {
    const unknown = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";
    const cases: [number, string, Record<string, unknown>][] = [
      [400, "username", { username: "" }],
      [400, "username", { username: "with space" }],
      [400, "username", { username: "ünïcode" }],
      [400, "username", { username: "u".repeat(256) }],
      [400, "email", { email: "nobody" }],
      [400, "display_name", { display_name: "d".repeat(256) }],
      [400, "roles[1]", { roles: ["viewer", "owner"] }],
      [400, "project_roles[0].role", { project_roles: [{ project_id: server.projectId, role: "owner" }] }],
      [400, "project_roles[0].role", { project_roles: [{ project_id: server.projectId, role: "gateway:admin" }] }],
      [404, "project_roles[0].project_id", { project_roles: [{ project_id: unknown, role: "viewer" }] }],
      [400, "rate_limit_per_minute", { rate_limit_per_minute: 0 }],
    ];
    for (const [expected, field, fields] of cases) {
      const { status, body } = await create(fields);

      expect(status, `${field} ${JSON.stringify(body)}`).to.equal(expected);
      expect(body.error.details[0].field).to.equal(field);
    }
  });

  it("changes in what is mentioned and nothing else; null clears the email", async () => {
    const { body: user } = await create({
      email: "dave@example.com",
      roles: ["viewer"],
      project_roles: [{ project_id: server.projectId, role: "editor" }],
      rate_limit_per_minute: 5,
    });
    const { enrollment_token: _, updated_at: __, ...created } = user;

    const { body: renamed } = await put(user.id, { display_name: "Dave", username: "another", email: undefined });
    const { body: cleared } = await put(user.id, { email: null, rate_limit_per_minute: null, roles: [] });

    expect(renamed).to.deep.include({ ...created, display_name: "Dave" });
    expect(cleared).to.deep.include({
      ...created,
      display_name: "Dave",
      email: null,
      rate_limit_per_minute: null,
      roles: [],
    });
  });

  it("keeps every change of several that are made at once", async () => {
    const projectRoles = [{ project_id: server.projectId, role: "editor" }];
    for (let round = 0; round < 5; round += 1) {
      const { body: user } = await create({ roles: ["viewer"] });

      await Promise.all([
        put(user.id, { display_name: "new" }),
        put(user.id, { roles: ["auditor"] }),
        put(user.id, { project_roles: projectRoles }),
        put(user.id, { rate_limit_per_minute: 7 }),
      ]);

      const { body } = await server.admin.rest("GET", `${path}/${user.id}`);
      expect(body).to.deep.include({ display_name: "new", roles: ["auditor"], rate_limit_per_minute: 7 });
      expect(body.project_roles).to.deep.equal(projectRoles);
    }
  });

  it("is listed by username, in pages, and found by part of username, display name or email", async () => {
    await create({ username: "zebra.b", display_name: "plain" });
    await create({ username: "zz-other", display_name: "A Zebra" });
    await create({ username: "zebra.a", email: "someone@example.com" });
    await create({ username: "zz-third", display_name: "plain", email: "post@zebra.example" });

    const { headers, body } = await server.admin.rest("GET", `${path}?search=ZEBRA&per_page=3`);

    const names = body.data.map(({ username }: { username: string }) => username);
    expect(names).to.deep.equal(["zebra.a", "zebra.b", "zz-other"]);
    expect(body.data[0]).to.have.all.keys(recordKeys);
    expect(body.pagination).to.deep.equal({ page: 1, per_page: 3, total: 4 });
    expect(headers.get("x-total-count")).to.equal("4");
  });

  it("is listed by status", async () => {
    const name = newName();
    const users = await Promise.all(["p", "a", "d"].map((kind) => create({ username: `${name}-${kind}` })));
    const [, , disabled] = users.map(({ body }) => body.id);
    await enroll(server.anonymous, `${name}-a`, users[1]?.body.enrollment_token, usualPassword);
    await act(disabled, "disable");

    for (const [status, kind] of Object.entries({ pending: "p", active: "a", disabled: "d" })) {
      const { body } = await server.admin.rest("GET", `${path}?search=${name}&status=${status}`);

      const names = body.data.map(({ username }: { username: string }) => username);
      expect(names, status).to.deep.equal([`${name}-${kind}`]);
    }
  });

  it("is found by its id in capitals too", async () => {
    const { body: user } = await create();

    const { status, body } = await put(user.id.toUpperCase(), { roles: ["viewer"] });

    expect(status).to.equal(200);
    expect(body).to.deep.include({ id: user.id, roles: ["viewer"] });
  });

  it("is managed by those who hold identity:write, and seen by those who hold identity:read, at the organization", async () => {
    const { body: user } = await create();
    const at = `${path}/${user.id}`;
    const outsiders = [
      await server.user(newName(), { roles: ["editor"] }),
      await server.user(newName(), { project_roles: [{ project_id: server.projectId, role: "admin" }] }),
    ];
    for (const outsider of outsiders) {
      const answers = [
        await outsider.rest("POST", path, { username: newName() }),
        await outsider.rest("GET", path),
        await outsider.rest("GET", at),
        await outsider.rest("PUT", `${path}/${outsider.id}`, { roles: ["admin"] }),
        await outsider.rest("POST", `${at}/disable`, {}),
        await outsider.rest("POST", `${at}/enable`, {}),
        await outsider.rest("POST", `${at}/reset-enrollment`, {}),
        await outsider.rest("DELETE", at),
      ];
      expect(answers.map(({ status }) => status)).to.deep.equal(Array(8).fill(403));
    }
  });
});

describe("GET /users/me", () => {
  it("is the calling user, whatever they hold", async () => {
    const user = await server.user(newName());

    const { status, body } = await user.rest("GET", `${path}/me`);

    expect(status).to.equal(200);
    expect(body).to.have.all.keys(recordKeys);
    expect(body).to.deep.equal((await server.admin.rest("GET", `${path}/${user.id}`)).body);
  });

  it("is 404 for a machine identity", async () => {
    const { status, body } = await server.admin.rest("GET", `${path}/me`);

    expect(status).to.equal(404);
    expect(body.error.message).to.equal("user not found");
  });
});

describe("An enrollment token", () => {
  it("is shown by the call that made it and by nothing else, and lasts 72 hours", async () => {
    const { body: user } = await create();

    const others = [
      await server.admin.rest("GET", `${path}/${user.id}`),
      await put(user.id, { display_name: "d" }),
      await act(user.id, "disable"),
      await act(user.id, "enable"),
    ];

    expect(user.enrollment_token).to.match(tokenPattern);
    expect(Date.parse(user.enrollment_expires_at) - Date.parse(user.created_at)).to.equal(72 * 3_600_000);
    for (const { status, body } of others) {
      expect(status).to.equal(200);
      expect(body).to.have.all.keys(recordKeys);
    }
    const { body: list } = await server.admin.rest("GET", path);
    expect(JSON.stringify(list)).not.to.include("hfe_");
  });

  it("is stored as a keyed hash, and told neither to the log nor to the audit log", async () => {
    const { body: created } = await create();
    const { body: reset } = await act(created.id, "reset-enrollment");

    const { enrollment_token_hash: hash } = await stored(created.id);
    const events = await server.sql("select * from audit_event where resource_id = $1", [created.id]);
    const told = server.log + JSON.stringify(events);
    expect(hash).to.have.length(32);
    expect(events.map(({ action }) => action)).to.deep.equal(["user.create", "user.reset_enrollment"]);
    expect(server.log).to.include("CreateUser");
    for (const { enrollment_token: token } of [created, reset]) {
      expect(told).not.to.include(token);
      expect(told).not.to.include(token.slice(4));
    }
    expect(told).not.to.include(hash.toString("hex"));
  });

  it("is replayed under an Idempotency-Key for five minutes, and then refused without making another user", async () => {
    const username = newName();
    const send = () => server.admin.rest("POST", path, { username }, { "idempotency-key": username });
    const age = (interval: string) =>
      server.sql("update idempotency_record set created_at = created_at - $2::interval where key = $1", [
        username,
        interval,
      ]);

    const first = await send();
    await age("4 minutes 50 seconds");
    const soon = await send();
    await age("20 seconds");
    const late = await send();

    expect(soon.body).to.deep.equal(first.body);
    expect(soon.headers.get("idempotency-replayed")).to.equal("true");
    expect(late.status).to.equal(409);
    expect(JSON.stringify(late.body)).not.to.include("hfe_");
  });

  it("is made anew for who has lost it, or the password, which works until another one is set", async () => {
    const { body: user } = await create();
    const before = await stored(user.id);
    await enroll(server.anonymous, user.username, user.enrollment_token, usualPassword);

    const { status, body } = await act(user.id, "reset-enrollment");

    const after = await stored(user.id);
    expect(status).to.equal(200);
    expect(body.enrollment_token).to.match(tokenPattern).and.not.equal(user.enrollment_token);
    expect(body.status).to.equal("active");
    expect(after.enrollment_token_hash.equals(before.enrollment_token_hash)).to.equal(false);
    expect((await tryPassword(server.anonymous, user.username, usualPassword)).status).to.equal(200);
    expect(Date.parse(body.enrollment_expires_at) - Date.parse(body.updated_at)).to.equal(72 * 3_600_000);
  });

  it("ends when the user is disabled, and is not made for a disabled one", async () => {
    const { body: user } = await create();

    const disabled = await act(user.id, "disable");
    const reset = await act(user.id, "reset-enrollment");
    const enabled = await act(user.id, "enable");

    expect(disabled.body.enrollment_expires_at).to.equal(null);
    expect((await stored(user.id)).enrollment_token_hash).to.equal(null);
    expect([reset.status, reset.body.error.code]).to.deep.equal([409, "RESOURCE_CONFLICT"]);
    expect(enabled.body.status).to.equal("pending");
  });
});

describe("A disabled user", () => {
  it("is kept out at once, and let in again, but not with the tokens and sessions from before", async () => {
    const username = newName();
    const user = await server.user(username);
    const { body: apiToken } = await user.rest("POST", "/api/v1/api-tokens", { name: "ci" });
    const use = async (token: string | undefined) =>
      (await server.anonymous.rest("GET", `${path}/me`, undefined, { authorization: `Bearer ${token}` })).status;
    const before = [await use(user.token), await use(apiToken.token)];

    const { body: disabled } = await act(user.id, "disable");
    const meanwhile = [await use(user.token), await use(apiToken.token)];
    const { body: enabled } = await act(user.id, "enable");
    const after = [
      await use(user.token),
      await use(apiToken.token),
      await use((await loginAs(server.anonymous, username, usualPassword)).token),
    ];

    expect([disabled.status, enabled.status]).to.deep.equal(["disabled", "active"]);
    expect(before).to.deep.equal([200, 200]);
    expect(meanwhile).to.deep.equal([401, 401]);
    expect(after).to.deep.equal([401, 200, 200]);
  });

  it("ends the one token that a change of password had left", async () => {
    const user = await server.user(newName());
    await server.sql("update user_account set surviving_credential = uuidv7() where id = $1", [user.id]);

    await act(user.id, "disable");

    expect((await stored(user.id)).surviving_credential).to.equal(null);
  });

  it("stays as it is when disabled again, and so does one that is enabled", async () => {
    const user = await server.user(newName());
    const first = await act(user.id, "disable");
    const { credential_version: version } = await stored(user.id);

    const again = await act(user.id, "disable");
    await act(user.id, "enable");
    const enabledAgain = await act(user.id, "enable");

    expect([again.status, again.body]).to.deep.equal([200, first.body]);
    expect((await stored(user.id)).credential_version).to.equal(version);
    expect([enabledAgain.status, enabledAgain.body.status]).to.deep.equal([200, "active"]);
  });
});

describe("A deleted user", () => {
  it("is gone with roles, tokens, sessions and key: 204, then 404; the audit log keeps the name", async () => {
    const username = newName();
    const user = await server.user(username, { roles: ["viewer"] });
    await user.rest("POST", "/api/v1/api-tokens", { name: "ci" });
    await user.rest("POST", "/api/v1/auth/session", {});
    const left = async () => {
      const rows = await server.sql(
        `select 'user' as what from user_account where id = $1 union all
         select 'role' from role_binding where identity_id = $1 union all
         select 'api token' from api_token where owner_id = $1 union all
         select 'session' from session where identity_id = $1 union all
         select 'key' from data_key where record_id = $1`,
        [user.id],
      );
      return rows.map(({ what }) => what);
    };
    expect(await left()).to.deep.equal(["user", "role", "api token", "session", "key"]);

    const first = await server.admin.rest("DELETE", `${path}/${user.id}`);
    const second = await server.admin.rest("DELETE", `${path}/${user.id}`);

    expect([first.status, second.status]).to.deep.equal([204, 404]);
    expect(await left()).to.deep.equal([]);
    expect((await user.rest("GET", `${path}/me`)).body.error.code).to.equal("AUTH_INVALID");
    expect(await server.auditTrail()).to.include("administrator user.delete success");
    const [event] = await server.sql("select * from audit_event where action = 'user.delete' and resource_id = $1", [
      user.id,
    ]);
    expect(event.resource_name).to.equal(username);
  });

  it("leaves the username to others", async () => {
    const { body: user } = await create();
    await server.admin.rest("DELETE", `${path}/${user.id}`);

    const { status, body } = await create({ username: user.username });

    expect(status).to.equal(201);
    expect(body.id).not.to.equal(user.id);
  });
});

describe("Another organization's users", () => {
  it("are not listed, and 404 whatever is asked of them", async () => {
    const { admin: eve } = await server.otherOrganization();
    const { body: user } = await create();
    const at = `${path}/${user.id}`;
    const before = await stored(user.id);

    const answers = [
      await eve.rest("GET", at),
      await eve.rest("PUT", at, { display_name: "eve" }),
      await eve.rest("POST", `${at}/disable`, {}),
      await eve.rest("POST", `${at}/enable`, {}),
      await eve.rest("POST", `${at}/reset-enrollment`, {}),
      await eve.rest("DELETE", at),
    ];

    expect(answers.map(({ status }) => status)).to.deep.equal(Array(6).fill(404));
    expect(await stored(user.id)).to.deep.equal(before);
    expect((await eve.rest("GET", path)).body.data).to.deep.equal([]);
  });
});

describe("Over gRPC", () => {
  it("an update without a mask changes what is set, and one with a mask what it names", async () => {
    const { body: user } = await create({ email: "g@example.com", roles: ["viewer"] });
    const grpc = server.admin.grpc(UserService);

    const set = await grpc.updateUser({ id: user.id, displayName: "G" }, server.admin.metadata());
    const masked = await grpc.updateUser(
      { id: user.id, updateMask: { paths: ["email", "roles"] } },
      server.admin.metadata(),
    );
    grpc.close();

    expect(set).to.deep.include({ displayName: "G", email: "g@example.com", roles: ["viewer"] });
    expect(masked).to.deep.include({ displayName: "G", roles: [] });
    expect(masked.email).to.equal(undefined);
  });
});
