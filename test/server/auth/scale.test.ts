import { Client } from "../../harness/client.ts";
import { beginLogin, loginAs } from "../../harness/person.ts";
import { useServer, usualPassword } from "../../harness/server.ts";
import { purgeJob } from "../../../src/server/auth/purge.ts";
import { pagesTouched, plansOf, statementsDuring, stepsOf } from "./query-plans.ts";

const server = useServer();

interface Size { organizations: number; users: number; machineIdentities: number; roles: number; apiTokens: number; sessions: number; revokedTokens: number }
const few: Size = { organizations: 10, users: 10, machineIdentities: 10, roles: 10, apiTokens: 10, sessions: 10, revokedTokens: 10 };
const many: Size = { organizations: 1000, users: 10_000, machineIdentities: 10_000, roles: 1000, apiTokens: 100_000, sessions: 10_000, revokedTokens: 10_000 };

async function fill(name: string, size: Size) {
  const [{ id }] = await server.sql("select id from organization where instance");
  await server.sql(`
    insert into organization (name) select '${name}-' || n from generate_series(1, ${size.organizations}) n;
    insert into role (organization_id, name, permissions)
      select '${id}', '${name}-' || n, '{secret:read,keytab:read}' from generate_series(1, ${size.roles}) n;
    insert into user_account (organization_id, username, email, display_name, status, srp_group, srp_salt, srp_verifier)
      select '${id}', '${name}-' || n, '${name}-' || n || '@example.com', 'User ' || n, 'active', 'rfc5054-3072', decode(md5(n::text), 'hex'),
        decode(repeat(md5(n::text), 26), 'hex')
      from generate_series(1, ${size.users}) n;
    insert into data_key (record_id, organization_id, wrapped)
      select id, organization_id, decode(repeat(md5(username), 4), 'hex') from user_account where username like '${name}-%';
    insert into machine_identity (organization_id, name)
      select '${id}', '${name}-' || n from generate_series(1, ${size.machineIdentities}) n;
    insert into client_secret (organization_id, machine_identity_id, prefix, hash)
      select organization_id, id, 'hfcs_', sha256(name::bytea) from machine_identity where name like '${name}-%';
    create temp table member as
      select id, row_number() over () as n from user_account where username like '${name}-%';
    insert into role_binding (organization_id, identity_id, role, project_id)
      select '${id}', id, '${name}-' || (member.n * 7 + b) % ${size.roles} + 1, case when b % 2 = 0 then gen_random_uuid() end
      from member, generate_series(1, case when member.n % 100 = 0 then 50 else 3 end) b;
    insert into api_token (organization_id, owner_id, name, prefix, hash, expires_at, revoked_at)
      select '${id}', id, 'token', 'hf_', sha256(('${name}' || t)::bytea), now() + (t % 200 - 2) * interval '1 day', case when t % 50 = 0 then now() - t % 80 * interval '1 day' end
      from generate_series(1, ${size.apiTokens}) t join member on member.n = t % ${size.users} + 1;
    insert into session (organization_id, identity_id, hash, credential_version, expires_at, last_used_at)
      select '${id}', id, sha256(('${name}' || s)::bytea), 1, now() + (s % 180 - 168) * interval '1 hour', now()
      from generate_series(1, ${size.sessions}) s join member on member.n = s % ${size.users} + 1;
    insert into revoked_token (id, organization_id, expires_at)
      select gen_random_uuid(), '${id}', now() + (t % 72 - 24) * interval '1 hour' from generate_series(1, ${size.revokedTokens}) t;
  `);
  await server.sql("vacuum (analyze)");
}

async function measure(name: string) {
  const out = new Map<string, { pages: number; steps: string[]; text: string }[]>();
  const { body: role } = await server.admin.rest("POST", "/api/v1/roles", { name: `${name}-forget`, permissions: ["secret:read"] });
  let turn = 0;
  const forget = async () => { const r = await server.admin.rest("PUT", `/api/v1/roles/${role.id}`, { permissions: turn++ % 2 ? ["secret:read"] : ["keytab:read"] }); if (r.status !== 200) throw new Error(JSON.stringify(r.body)); };
  const take = async (what: string, work: () => Promise<unknown>) => {
    await forget();
    const st = (await statementsDuring(server, work)).filter(({ text }) => !/audit_|pg_notify|pg_stat/.test(text));
    const plans = await plansOf(server.databaseUrl, st);
    out.set(what, plans.map((p) => ({ pages: pagesTouched(p.root), steps: stepsOf(p.root).filter((s) => s["Relation Name"]).map((s) => `${s["Node Type"]}:${s["Relation Name"]}`), text: p.statement.text.replace(/\s+/g, " ").slice(0, 70) })));
  };
  const user = await server.user(`probe-${name}`, ["viewer"]);
  await server.sql(`insert into role_binding (organization_id, identity_id, role, project_id) select organization_id, id, '${name}-' || n % 10 + 1, null from user_account, generate_series(1, 50) n where username = 'probe-${name}'`);
  await server.sql("vacuum (analyze)");
  let login!: Awaited<ReturnType<typeof beginLogin>>;
  await take("init", async () => { login = await beginLogin(server.anonymous, `probe-${name}`, usualPassword); });
  await take("verify", () => server.anonymous.rest("POST", "/api/v1/auth/srp/verify", login.request));
  await take("init nobody", () => beginLogin(server.anonymous, "nobody", "x"));
  await take("client", () => server.login(server.clientId, server.clientSecret));
  await take("jwt", () => user.rest("GET", "/api/v1/whoami"));
  const t = await user.rest("POST", "/api/v1/api-tokens", { name: "t" });
  await take("token", () => new Client(server.url, t.body.token).rest("GET", "/api/v1/whoami"));
  const s = await user.rest("POST", "/api/v1/auth/session");
  const cookie = s.headers.get("set-cookie") ?? "";
  await server.sql("update session set last_used_at = now() - interval '2 minutes' where identity_id = $1", [user.id]);
  await take("session", () => server.anonymous.rest("GET", "/api/v1/whoami", undefined, { cookie: cookie.split(";")[0] as string }));
  const other = await server.otherOrganization();
  for (let n = 0; n < 3; n += 1) await other.admin.rest("POST", "/api/v1/users", { username: `tenant-${name}-${n}` });
  await take("users of few", () => other.admin.rest("GET", "/api/v1/users"));
  await take("users of few, search", () => other.admin.rest("GET", "/api/v1/users?search=ten&status=pending"));
  await take("users", () => server.admin.rest("GET", "/api/v1/users"));
  await take("users status", () => server.admin.rest("GET", "/api/v1/users?status=active"));
  await take("users search", () => server.admin.rest("GET", "/api/v1/users?search=77"));
  await take("users page", () => server.admin.rest("GET", "/api/v1/users?page=20"));
  await take("tokens", () => user.rest("GET", "/api/v1/api-tokens?status=active"));
  await take("purge", () => purgeJob(server.server.core.db).run({}));
  return out;
}

describe("x", () => {
  it("measures", async function () {
    this.timeout(100000);
    for (const [name, size] of [["few", few], ["many", many]] as const) {
      const a = performance.now();
      await fill(name, size);
      console.log(name, "filled", performance.now() - a);
      const found = await measure(name);
      console.log(name, "measured", performance.now() - a);
      for (const [what, plans] of found) for (const p of plans) console.log(what.padEnd(20), String(p.pages).padStart(6), p.text, "\n        ", p.steps.join(" "));
    }
  });
});
