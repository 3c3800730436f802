import { expect } from "chai";
import { purgeJob } from "../../../src/server/auth/purge.ts";
import { type Answer, Client } from "../../harness/client.ts";
import { beginLogin } from "../../harness/person.ts";
import { useServer, usualPassword } from "../../harness/server.ts";
import { type Population, populate } from "./populate.ts";
import { type Plan, pagesTouched, plansOf, statementsDuring, stepsOf } from "./query-plans.ts";

const server = useServer();

const few: Population = {
  organizations: 10,
  roles: 10,
  users: 10,
  machineIdentities: 10,
  apiTokens: 10,
  sessions: 10,
  revokedTokens: 10,
};
const many: Population = {
  organizations: 1000,
  roles: 1000,
  users: 10_000,
  machineIdentities: 10_000,
  apiTokens: 100_000,
  sessions: 10_000,
  revokedTokens: 10_000,
};

/** What a statement may touch, among few as among many: reading all of the many is hundreds. */
const mostPages = 40;
/** What it may touch beyond that for each role of an identity. */
const pagesPerRole = 4;
const heldRoles = 50;

/** Who makes the calls. */
interface Callers {
  readonly username: string;
  readonly begunLogin: object;
  readonly begunWrongly: object;
  readonly byAccessToken: Client;
  readonly byApiToken: Client;
  readonly bySession: Client;
  readonly holderOfManyRoles: Client;
  /** The administrator of an organization with one user. */
  readonly ofSmallOrganization: Client;
}

interface Call {
  readonly name: string;
  readonly send: (callers: Callers) => Promise<Answer>;
  readonly status?: number;
  readonly mostPages?: number;
}

const whoAmI = (caller: Client) => caller.rest("GET", "/api/v1/whoami");
const srp = (step: "init" | "verify", body: object) => server.anonymous.rest("POST", `/api/v1/auth/srp/${step}`, body);
const byClientCredentials = () =>
  server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", {
    client_id: server.clientId,
    client_secret: server.clientSecret,
  });

const calls: readonly Call[] = [
  { name: "beginning a login with a password", send: ({ username }) => srp("init", { username }) },
  { name: "beginning one under a name that nobody has", send: () => srp("init", { username: "nobody" }) },
  { name: "ending a login with a password", send: ({ begunLogin }) => srp("verify", begunLogin) },
  { name: "ending one with a wrong password", send: ({ begunWrongly }) => srp("verify", begunWrongly), status: 401 },
  { name: "a login with client credentials", send: byClientCredentials },
  { name: "a call with an access token", send: ({ byAccessToken }) => whoAmI(byAccessToken) },
  { name: "a call with an API token", send: ({ byApiToken }) => whoAmI(byApiToken) },
  { name: "a call with a session", send: ({ bySession }) => whoAmI(bySession) },
  {
    name: `a call of an identity that holds ${heldRoles} roles`,
    send: ({ holderOfManyRoles }) => whoAmI(holderOfManyRoles),
    mostPages: mostPages + heldRoles * pagesPerRole,
  },
  {
    name: "a list of one's API tokens",
    send: ({ byAccessToken }) => byAccessToken.rest("GET", "/api/v1/api-tokens?status=active"),
  },
  {
    name: "a search among the users of a small organization",
    send: ({ ofSmallOrganization }) => ofSmallOrganization.rest("GET", "/api/v1/users?search=small&status=pending"),
  },
];

/** Somebody new for each population. */
async function newCallers(population: string): Promise<Callers> {
  const username = `caller-${population}`;
  const byAccessToken = await server.user(username, { roles: ["viewer"] });
  const { body: apiToken } = await byAccessToken.rest("POST", "/api/v1/api-tokens", { name: "ci" });
  const { headers } = await byAccessToken.rest("POST", "/api/v1/auth/session");
  const cookie = headers.getSetCookie()[0]?.split(";")[0] ?? "";
  // So long ago that the next use is noted.
  const age = "update session set last_used_at = now() - interval '2 minutes' where identity_id = $1";
  await server.sql(age, [byAccessToken.id]);
  const holderOfManyRoles = await server.user(`holder-${population}`);
  await server.sql(
    `insert into role_binding (organization_id, identity_id, role)
     select organization_id, id, $2 || n % 10 + 1 from user_account, generate_series(1, $3::int) n where id = $1`,
    [holderOfManyRoles.id, `${population}-`, heldRoles],
  );
  const { admin: ofSmallOrganization } = await server.otherOrganization();
  await ofSmallOrganization.rest("POST", "/api/v1/users", { username: `small-${population}` });
  return {
    username,
    begunLogin: (await beginLogin(server.anonymous, username, usualPassword)).request,
    begunWrongly: (await beginLogin(server.anonymous, username, "wrong")).request,
    byAccessToken,
    byApiToken: new Client(server.url, apiToken.token),
    bySession: new Client(server.url, undefined, byAccessToken.id, { cookie }),
    holderOfManyRoles,
    ofSmallOrganization,
  };
}

/** A change of a role concerns everybody who may hold it: the server reads all identities anew. */
async function forgetEverybody(): Promise<void> {
  const { body: role } = await server.admin.rest("POST", "/api/v1/roles", { name: "changing", permissions: [] });
  const { status } = await server.admin.rest("PUT", `/api/v1/roles/${role.id}`, { permissions: ["secret:read"] });
  expect(status).to.equal(200);
  await server.admin.rest("DELETE", `/api/v1/roles/${role.id}`);
}

/** How PostgreSQL runs what the server sends for a call. */
async function plansDuring(work: () => Promise<unknown>): Promise<Plan[]> {
  const statements = await statementsDuring(server, work);
  // An event can be inserted once only, and who else there is does not concern it.
  const repeatable = statements.filter(({ text }) => !text.includes("into audit_event"));
  const plans = await plansOf(server.databaseUrl, repeatable);
  expect(plans).not.to.have.length(0);
  return plans;
}

const plansOfCall = async ({ send, status = 200 }: Call, callers: Callers) => {
  await forgetEverybody();
  return plansDuring(async () => expect((await send(callers)).status).to.equal(status));
};

const textsOf = (plans: readonly Plan[]) => plans.map(({ statement }) => statement.text);

function expectFewPages(plans: readonly Plan[], most = mostPages): void {
  for (const { statement, root } of plans) expect(pagesTouched(root), statement.text).to.be.at.most(most);
}

/** Every row that is read was found by an index. */
function expectIndexes(plans: readonly Plan[]): void {
  const ways = ["Index Scan", "Index Only Scan", "Bitmap Heap Scan", "ModifyTable"];
  for (const { statement, root } of plans) {
    const tables = stepsOf(root).filter((step) => step["Relation Name"] !== undefined);
    for (const step of tables) expect(ways, statement.text).to.include(step["Node Type"]);
  }
}

describe("Among 10,000 users with 1,000 roles and 100,000 API tokens", () => {
  const amongFew = new Map<string, Plan[]>();
  let callers: Callers;

  before(async function () {
    this.timeout(60_000);
    await populate(server, "few", few);
    callers = await newCallers("few");
    for (const call of calls) amongFew.set(call.name, await plansOfCall(call, callers));
    await populate(server, "many", many);
    callers = await newCallers("many");
    await server.sql("vacuum (analyze)");
  });

  for (const call of calls) {
    it(`${call.name} costs what it costs among ten`, async () => {
      const before = amongFew.get(call.name) ?? [];

      const plans = await plansOfCall(call, callers);

      expect(textsOf(plans)).to.deep.equal(textsOf(before));
      expectIndexes(plans);
      for (const each of [before, plans]) expectFewPages(each, call.mostPages);
    });
  }

  it("credentials that ended long ago are found without reading the others", async () => {
    const plans = await plansDuring(() => purgeJob(server.server.core.db).run({}));

    expectIndexes(plans);
    expectFewPages(plans);
  });

  for (const path of [
    "/api/v1/users",
    "/api/v1/users?page=2",
    "/api/v1/users?status=active",
    "/api/v1/users?status=disabled&page=3",
  ]) {
    it(`GET ${path} finds its page and counts by an index`, async () => {
      expectIndexes(await plansDuring(async () => expect((await server.admin.rest("GET", path)).status).to.equal(200)));
    });
  }
});
