import { expect } from "chai";
import { type Answer, Client } from "../../harness/client.ts";
import { passwordFields, tryPassword } from "../../harness/person.ts";
import { urlOf, useServer, usualPassword } from "../../harness/server.ts";

const server = useServer();
const codeOf = ({ status, body }: Answer) => (status < 300 ? status : `${status} ${body.error.code}`);

describe("Past the end of a license (G-17.6)", () => {
  let url = "";
  before(async () => {
    url = urlOf(await server.startReplica({ LICENSE_EXPIRES_AT: "2020-01-01T00:00:00Z" }));
  });

  it("people come and go: they log in, begin sessions, read, end them and log out", async () => {
    await server.user("reader", { roles: ["viewer"] });

    const login = await tryPassword(new Client(url, undefined), "reader", usualPassword);
    const bearer = new Client(url, login.body.access_token);
    const session = await bearer.rest("POST", "/api/v1/auth/session");
    const browser = new Client(url, undefined, "", {
      cookie: session.headers.getSetCookie()[0]?.split(";")[0] ?? "",
      "x-csrf-token": session.body.csrf_token,
    });
    const answers = [
      login,
      session,
      await browser.rest("GET", "/api/v1/projects"),
      await browser.rest("DELETE", "/api/v1/auth/session"),
      await bearer.rest("POST", "/api/v1/auth/logout"),
    ];

    expect(answers.map(codeOf)).to.deep.equal([200, 201, 200, 204, 204]);
    expect(codeOf(await browser.rest("GET", "/api/v1/projects"))).to.equal("401 AUTH_INVALID");
    expect(codeOf(await bearer.rest("GET", "/api/v1/projects"))).to.equal("401 AUTH_INVALID");
  });

  it("nothing is written of identities, roles, tokens and passwords", async () => {
    const { body: pending } = await server.admin.rest("POST", "/api/v1/users", { username: "pending" });
    const { body: role } = await server.admin.rest("POST", "/api/v1/roles", { name: "role", permissions: [] });
    const { body: machine } = await server.admin.rest("POST", "/api/v1/machine-identities", { name: "machine" });
    const secrets = `/api/v1/machine-identities/${machine.id}/client-secrets`;
    const { body: secret } = await server.admin.rest("POST", secrets, {});
    const { body: token } = await server.admin.rest("POST", "/api/v1/api-tokens", { name: "t" });
    const person = await server.user("person");
    const admin = new Client(url, server.admin.token);
    const nobody = new Client(url, undefined);
    const tables = "user_account role machine_identity client_secret api_token role_binding organization project";
    const stored = async () => {
      const rows = [];
      for (const table of tables.split(" ")) rows.push(await server.sql(`select * from ${table} order by id`));
      return rows;
    };
    const before = await stored();

    const answers = [
      await nobody.rest("POST", "/api/v1/auth/srp/enroll", {
        username: "pending",
        enrollment_token: pending.enrollment_token,
        ...(await passwordFields("pending", "one")),
      }),
      await new Client(url, person.token).rest("PUT", "/api/v1/users/me/srp", await passwordFields("person", "one")),
      await admin.rest("POST", "/api/v1/users", { username: "late" }),
      await admin.rest("PUT", `/api/v1/users/${pending.id}`, { display_name: "x" }),
      await admin.rest("POST", `/api/v1/users/${pending.id}/disable`, {}),
      await admin.rest("POST", `/api/v1/users/${pending.id}/enable`, {}),
      await admin.rest("POST", `/api/v1/users/${pending.id}/reset-enrollment`, {}),
      await admin.rest("DELETE", `/api/v1/users/${pending.id}`),
      await admin.rest("POST", "/api/v1/roles", { name: "late", permissions: [] }),
      await admin.rest("PUT", `/api/v1/roles/${role.id}`, { name: "x" }),
      await admin.rest("DELETE", `/api/v1/roles/${role.id}`),
      await admin.rest("POST", "/api/v1/machine-identities", { name: "late" }),
      await admin.rest("PUT", `/api/v1/machine-identities/${machine.id}`, { name: "x" }),
      await admin.rest("POST", `/api/v1/machine-identities/${machine.id}/disable`, {}),
      await admin.rest("DELETE", `/api/v1/machine-identities/${machine.id}`),
      await admin.rest("POST", secrets, {}),
      await admin.rest("DELETE", `${secrets}/${secret.id}`),
      await admin.rest("POST", "/api/v1/api-tokens", { name: "late" }),
      await admin.rest("DELETE", `/api/v1/api-tokens/${token.id}`),
      await admin.rest("POST", "/api/v1/organizations", { name: "late" }),
    ];

    expect(new Set(answers.map(codeOf))).to.deep.equal(new Set(["403 LICENSE_EXPIRED"]));
    expect(await stored()).to.deep.equal(before);
  });
});
