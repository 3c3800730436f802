import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import type { Answer, Client } from "../../harness/client.ts";
import { beginLogin, loginAs, passwordFields, tryPassword } from "../../harness/person.ts";
import { useServer, usualPassword } from "../../harness/server.ts";

const server = useServer();
const users = "/api/v1/users";
const machines = "/api/v1/machine-identities";

let count = 0;
const newName = (kind = "user") => `${kind}-${(count += 1)}`;
const codeOf = ({ status, body }: Answer) => (status < 300 ? status : `${status} ${body.error.code}`);
const stored = async (id: string) => (await server.sql("select * from user_account where id = $1", [id]))[0];

/** Runs `work` while another connection holds what `statement` locks; `waiting` says when so many calls wait for locks. */
async function whileLocked(
  statement: string,
  values: unknown[],
  work: (holder: pg.Client, waiting: (calls: number) => Promise<void>) => Promise<void>,
): Promise<void> {
  const holder = new pg.Client(server.databaseUrl);
  await holder.connect();
  try {
    await holder.query("begin");
    await holder.query(statement, values);
    await work(holder, async (calls) => {
      const waiting = `select count(*)::int as calls from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`;
      while ((await server.sql(waiting))[0].calls < calls) await sleep(5);
    });
    await holder.query("commit");
  } finally {
    await holder.end();
  }
}

const lockUser = "select 1 from user_account where id = $1 for update";
const lockSecret = "select 1 from client_secret where id = $1 for update";
const lockOrganization = "select 1 from organization where instance for update";

const change = async (by: Client, username: string, password: string) =>
  by.rest("PUT", `${users}/me/srp`, await passwordFields(username, password));
const enrollWith = async (username: string, token: string, password: string) =>
  server.anonymous.rest("POST", "/api/v1/auth/srp/enroll", {
    username,
    enrollment_token: token,
    ...(await passwordFields(username, password)),
  });

describe("A change of password", () => {
  for (const [deed, ended] of [
    ["disable", (id: string) => server.admin.rest("POST", `${users}/${id}/disable`, {})],
    ["delete", (id: string) => server.admin.rest("DELETE", `${users}/${id}`)],
  ] as const) {
    it(`that is overtaken by one who ${deed}s the user is refused, and lets nobody in again`, async () => {
      const username = newName();
      const user = await server.user(username);
      let answers: Promise<Answer[]> = Promise.resolve([]);

      await whileLocked(lockOrganization, [], async (_, waiting) => {
        const first = ended(user.id);
        await waiting(1);
        answers = Promise.all([first, change(user, username, "mine again")]);
        await waiting(2);
      });
      const [, changed] = await answers;

      expect(codeOf(changed as Answer)).to.equal("401 AUTH_INVALID");
      expect((await stored(user.id))?.status).to.equal(deed === "disable" ? "disabled" : undefined);
      expect(codeOf(await user.rest("GET", "/api/v1/whoami"))).to.equal("401 AUTH_INVALID");
      const keys = await server.sql("select 1 from data_key where record_id = $1", [user.id]);
      expect(keys).to.have.length(deed === "disable" ? 1 : 0);
    });
  }

  it("lets nobody in who is disabled, whatever number the logins carry", async () => {
    const username = newName();
    const user = await server.user(username);
    let changed: Promise<Answer> | undefined;

    await whileLocked(lockUser, [user.id], async (holder, waiting) => {
      changed = change(user, username, "mine again");
      await waiting(1);
      await holder.query("update user_account set status = 'disabled' where id = $1", [user.id]);
    });

    expect(codeOf((await changed) as Answer)).to.equal("401 AUTH_INVALID");
    expect((await stored(user.id)).status).to.equal("disabled");
  });

  it("ends the other login also when that one is changing the password at the same moment", async () => {
    const username = newName();
    const [first, second] = [await server.user(username), await loginAs(server.anonymous, username, usualPassword)];
    let answers: Promise<Answer[]> = Promise.resolve([]);

    await whileLocked(lockUser, [first.id], async (_, waiting) => {
      const one = change(first, username, "the first");
      await waiting(1);
      const other = change(second, username, "the second");
      await waiting(2);
      answers = Promise.all([one, other]);
    });

    expect((await answers).map(codeOf)).to.deep.equal([200, "401 AUTH_INVALID"]);
    expect(codeOf(await first.rest("GET", "/api/v1/whoami"))).to.equal(200);
    expect(codeOf(await second.rest("GET", "/api/v1/whoami"))).to.equal("401 AUTH_INVALID");
    expect((await tryPassword(server.anonymous, username, "the first")).status).to.equal(200);
  });

  it("can be made twice by one login", async () => {
    const username = newName();
    const user = await server.user(username);

    const answers = [await change(user, username, "one"), await change(user, username, "two")];

    expect(answers.map(codeOf)).to.deep.equal([200, 200]);
    expect(codeOf(await user.rest("GET", "/api/v1/whoami"))).to.equal(200);
  });

  it("ends a session that another login is just beginning", async () => {
    const username = newName();
    const [user, thief] = [await server.user(username), await loginAs(server.anonymous, username, usualPassword)];
    let begun: Promise<Answer> | undefined;

    // A call with an Idempotency-Key looks there first, when it is settled who calls.
    await whileLocked("lock table idempotency_record in access exclusive mode", [], async (_, waiting) => {
      begun = thief.rest("POST", "/api/v1/auth/session", {}, { "idempotency-key": newName("key") });
      await waiting(1);
      await change(user, username, "another");
    });
    const session = await begun;
    const cookie = session?.headers.getSetCookie()[0]?.split(";")[0] ?? "";

    const used = await server.anonymous.rest("GET", "/api/v1/whoami", undefined, { cookie });
    expect(codeOf(used)).to.equal("401 AUTH_INVALID");
  });
});

describe("A login that is under way", () => {
  it("with a password gives no token when the password is replaced meanwhile", async () => {
    const username = newName();
    const user = await server.user(username);
    const { request } = await beginLogin(server.anonymous, username, usualPassword);
    let verified: Promise<Answer> | undefined;

    // Roles are read last, when the proof has been found right.
    await whileLocked("lock table role_binding in access exclusive mode", [], async (holder, waiting) => {
      verified = server.anonymous.rest("POST", "/api/v1/auth/srp/verify", request);
      await waiting(1);
      await holder.query("update user_account set credential_version = credential_version + 1 where id = $1", [
        user.id,
      ]);
    });

    expect(codeOf((await verified) as Answer)).to.equal("401 AUTH_INVALID");
  });

  async function newMachine() {
    const { body: machine } = await server.admin.rest("POST", machines, { name: newName("machine") });
    const { body: secret } = await server.admin.rest("POST", `${machines}/${machine.id}/client-secrets`, {});
    const fields = { client_id: machine.client_id, client_secret: secret.client_secret };
    const login = () => server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", fields);
    return { id: machine.id as string, secretId: secret.id as string, login };
  }

  it("with a client secret gives no token when the identity is disabled meanwhile, not even for later", async () => {
    const { id, secretId, login } = await newMachine();
    let begun: Promise<Answer> | undefined;

    await whileLocked(lockSecret, [secretId], async (holder, waiting) => {
      begun = login();
      await waiting(1);
      const disable = "update machine_identity set status = 'disabled', credential_version = 2 where id = $1";
      await holder.query(disable, [id]);
    });

    expect(codeOf((await begun) as Answer)).to.equal("401 AUTH_INVALID");
  });

  it("with a client secret does not wait for who is changing the identity, and then its secrets", async () => {
    const { id, secretId, login } = await newMachine();

    await whileLocked("select 1 from machine_identity where id = $1 for update", [id], async (holder) => {
      expect(codeOf(await login())).to.equal(200);
      await holder.query("update client_secret set revoked_at = now() where id = $1", [secretId]);
    });

    expect(codeOf(await login())).to.equal("401 AUTH_INVALID");
  });

  for (const [what, end] of [
    ["revoked", "revoked_at = now()"],
    ["made to expire", "expires_at = now()"],
  ]) {
    it(`with a client secret gives no token when the secret is ${what} meanwhile`, async () => {
      const { secretId, login } = await newMachine();
      let begun: Promise<Answer> | undefined;

      await whileLocked(lockSecret, [secretId], async (holder, waiting) => {
        begun = login();
        await waiting(1);
        await holder.query(`update client_secret set ${end} where id = $1`, [secretId]);
      });

      expect(codeOf((await begun) as Answer)).to.equal("401 AUTH_INVALID");
    });
  }
});

describe("An enrollment", () => {
  it("of two with one token at the same moment sets one password", async () => {
    const username = newName();
    const { body: user } = await server.admin.rest("POST", users, { username });
    let answers: Promise<Answer[]> = Promise.resolve([]);

    await whileLocked(lockUser, [user.id], async (_, waiting) => {
      const token = user.enrollment_token;
      answers = Promise.all(["one", "two"].map((password) => enrollWith(username, token, password)));
      await waiting(2);
    });

    expect((await answers).map(codeOf)).to.have.members([201, "401 AUTH_INVALID"]);
    const logins = [];
    for (const password of ["one", "two"])
      logins.push((await tryPassword(server.anonymous, username, password)).status);
    expect(logins).to.have.members([200, 401]);
  });

  it("is refused to who is disabled, whatever token is left", async () => {
    const username = newName();
    const { body: user } = await server.admin.rest("POST", users, { username });
    await server.sql("update user_account set status = 'disabled' where id = $1", [user.id]);

    expect(codeOf(await enrollWith(username, user.enrollment_token, "one"))).to.equal("401 AUTH_INVALID");
    expect((await stored(user.id)).status).to.equal("disabled");
  });

  for (const [deed, ended] of [
    ["disabled", (id: string) => server.admin.rest("POST", `${users}/${id}/disable`, {})],
    ["deleted", (id: string) => server.admin.rest("DELETE", `${users}/${id}`)],
    ["reset", (id: string) => server.admin.rest("POST", `${users}/${id}/reset-enrollment`, {})],
  ] as const) {
    it(`that is overtaken while the user is ${deed} is refused and leaves nothing behind`, async () => {
      const username = newName();
      const { body: user } = await server.admin.rest("POST", users, { username });
      let enrolled: Promise<Answer> | undefined;

      await whileLocked(lockUser, [user.id], async (_, waiting) => {
        const first = ended(user.id);
        await waiting(1);
        enrolled = enrollWith(username, user.enrollment_token, "late");
        await waiting(2);
        void first;
      });

      expect(codeOf((await enrolled) as Answer)).to.equal("401 AUTH_INVALID");
      expect((await tryPassword(server.anonymous, username, "late")).status).to.equal(401);
      expect(await server.sql("select 1 from data_key where record_id = $1", [user.id])).to.deep.equal([]);
    });
  }
});

describe("Changes of roles, users and projects at the same time", () => {
  const call = (method: string, path: string, body?: unknown) => server.admin.rest(method, `/api/v1${path}`, body);
  const create = async (path: string, fields: Record<string, unknown>) => (await call("POST", path, fields)).body;
  const any = <T>(items: readonly T[]) => items[Math.floor(Math.random() * items.length)] as T;

  it("neither wait for each other nor fail, and leave nothing bound that is gone", async function () {
    this.timeout(60_000);
    const permissions = ["secret:read"];
    const names = [newName("role"), newName("role"), newName("role")];
    const roles = await Promise.all(names.map((name) => create("/roles", { name, permissions })));
    const people = await Promise.all([1, 2, 3].map(() => create("/users", { username: newName() })));
    const deeds = (project: string): (() => Promise<Answer>)[] => [
      () => call("PUT", `/roles/${any(roles).id}`, { name: any(names) }),
      () => call("PUT", `/roles/${any(roles).id}`, { permissions }),
      () => call("DELETE", `/roles/${any(roles).id}`),
      () => call("PUT", `/users/${any(people).id}`, { roles: [any(names), any(names)] }),
      () => call("PUT", `/users/${any(people).id}`, { project_roles: [{ project_id: project, role: any(names) }] }),
      () => call("PUT", `/users/${any(people).id}`, { roles: [], project_roles: [] }),
      () => call("POST", "/users", { username: newName(), roles: [any(names), any(names)] }),
      () => call("POST", `/users/${any(people).id}/disable`, {}),
      () => call("DELETE", `/projects/${project}`),
    ];
    const deadlocks = async () =>
      (await server.sql("select deadlocks::int from pg_stat_database where datname = current_database()"))[0].deadlocks;
    const before = await deadlocks();

    const statuses = new Set<number>();
    for (let round = 0; round < 10; round += 1) {
      const { id } = await create("/projects", { name: newName("project") });
      const answers = await Promise.all([...deeds(id), ...deeds(id)].map((deed) => deed()));
      for (const { status } of answers) statuses.add(status);
    }

    expect([...statuses].filter((status) => status >= 500)).to.deep.equal([]);
    expect((await deadlocks()) - before).to.equal(0);
    const lost = await server.sql(
      `select b.role from role_binding b left join role r on r.name = b.role left join project p on p.id = b.project_id
       where (r.id is null and b.role <> all($1)) or (p.id is null and b.project_id is not null)`,
      [["admin", "gateway:admin"]],
    );
    expect(lost).to.deep.equal([]);
  });
});
