import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { loginAs, passwordFields, tryPassword } from "../../harness/person.ts";
import { useServer, usualPassword } from "../../harness/server.ts";

const server = useServer();
const admin = (method: string, path: string, body?: unknown) => server.admin.rest(method, `/api/v1${path}`, body);

/** What is recorded of `deeds`: actor, action, outcome and resource, one line each. */
async function recordedOf(deeds: () => Promise<unknown>): Promise<string[]> {
  const [{ before }] = await server.sql("select count(*)::int as before from audit_event");
  await deeds();
  const events = await server.sql("select * from audit_event order by occurred_at, id offset $1", [before]);
  return events.map((event) => {
    const actor = event.actor_name ?? event.actor_type;
    const resource = `${event.resource_type} ${event.resource_name ?? (event.resource_id === null ? "-" : "by id")}`;
    return `${actor} ${event.action} ${event.outcome}: ${resource}${event.reason === null ? "" : ` ${event.reason}`}`;
  });
}

describe("The audit log", () => {
  it("tells the life of a user: who did what to whom", async () => {
    const recorded = await recordedOf(async () => {
      const { body: ada } = await admin("POST", "/users", { username: "ada", roles: ["viewer"] });
      const at = `/users/${ada.id}`;
      await admin("PUT", at, { display_name: "Ada", roles: [] });
      const { body: reset } = await admin("POST", `${at}/reset-enrollment`, {});
      await server.anonymous.rest("POST", "/api/v1/auth/srp/enroll", {
        username: "ada",
        enrollment_token: reset.enrollment_token,
        ...(await passwordFields("ada", usualPassword)),
      });
      const client = await loginAs(server.anonymous, "ada", usualPassword);
      await client.rest("PUT", "/api/v1/users/me/srp", await passwordFields("ada", "another"));
      await client.rest("POST", "/api/v1/users", { username: "eve" });
      await client.rest("POST", "/api/v1/auth/logout", {});
      await tryPassword(server.anonymous, "ada", "wrong");
      await admin("POST", `${at}/disable`, {});
      await admin("POST", `${at}/reset-enrollment`, {});
      await admin("POST", `${at}/enable`, {});
      await admin("DELETE", at);
      await admin("DELETE", at);
    });

    expect(recorded).to.deep.equal([
      "administrator user.create success: user ada",
      "administrator user.update success: user ada",
      "administrator user.reset_enrollment success: user ada",
      "ada user.enroll success: user ada",
      "ada auth.login success: user ada",
      "ada user.change_password success: user ada",
      "ada user.create denied: user - PERMISSION_DENIED",
      "ada auth.logout success: access_token by id",
      "anonymous auth.login_failed denied: user ada AUTH_INVALID",
      "administrator user.disable success: user ada",
      "administrator user.reset_enrollment failure: user ada RESOURCE_CONFLICT",
      "administrator user.enable success: user ada",
      "administrator user.delete success: user ada",
      "administrator user.delete failure: user - RESOURCE_NOT_FOUND",
    ]);
  });

  it("tells what was done with tokens and sessions, and with which token", async () => {
    const bob = await server.user("bob");
    let tokenId = "";

    const recorded = await recordedOf(async () => {
      const { body: token } = await bob.rest("POST", "/api/v1/api-tokens", { name: "token" });
      const byToken = new Client(server.url, token.token);
      tokenId = token.id;
      await byToken.rest("POST", "/api/v1/api-tokens", { name: "child" });
      await byToken.rest("POST", "/api/v1/auth/session", {});
      await byToken.rest("PUT", "/api/v1/users/me/srp", await passwordFields("bob", "mine"));
      await bob.rest("DELETE", `/api/v1/api-tokens/${token.id}`);
      const { headers, body: session } = await bob.rest("POST", "/api/v1/auth/session", {});
      const cookie = headers.getSetCookie()[0]?.split(";")[0] ?? "";
      await server.anonymous.rest("DELETE", "/api/v1/auth/session", undefined, { cookie });
      await server.anonymous.rest("DELETE", "/api/v1/auth/session", undefined, {
        cookie,
        "x-csrf-token": session.csrf_token,
      });
    });

    expect(recorded).to.deep.equal([
      "bob api_token.create success: api_token token",
      "bob api_token.create success: api_token child",
      "bob session.create denied: session - PERMISSION_DENIED",
      "bob user.change_password denied: user bob PERMISSION_DENIED",
      "bob api_token.revoke success: api_token token",
      "bob session.create success: session by id",
      "bob session.delete denied: session - CSRF_INVALID",
      "bob session.delete success: session by id",
    ]);
    const { body } = await admin("GET", `/audit-logs?actor_id=${bob.id}&per_page=100`);
    const used = body.data.filter(({ details }: { details: object }) => "api_token_id" in details);
    expect(used.map(({ details }: { details: { api_token_id: string } }) => details.api_token_id)).to.deep.equal(
      Array(3).fill(tokenId),
    );
  });

  it("tells the life of a machine identity and of its client secrets", async () => {
    const recorded = await recordedOf(async () => {
      const { body: machine } = await admin("POST", "/machine-identities", { name: "ci" });
      const at = `/machine-identities/${machine.id}`;
      const { body: secret } = await admin("POST", `${at}/client-secrets`, {});
      await server.login(machine.client_id, secret.client_secret);
      const wrong = { client_id: machine.client_id, client_secret: "wrong" };
      await server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", wrong);
      await admin("DELETE", `${at}/client-secrets/${secret.id}`);
      await admin("PUT", at, { name: "renamed" });
      await admin("POST", `${at}/disable`, {});
      await admin("POST", `${at}/enable`, {});
      await admin("DELETE", at);
      await admin("DELETE", `/machine-identities/${server.admin.id}`);
    });

    expect(recorded).to.deep.equal([
      "administrator machine_identity.create success: machine_identity ci",
      "administrator machine_identity.create_client_secret success: machine_identity ci",
      "ci auth.login success: machine_identity ci",
      "anonymous auth.login_failed denied: machine_identity ci AUTH_INVALID",
      "administrator machine_identity.revoke_client_secret success: machine_identity ci",
      "administrator machine_identity.update success: machine_identity renamed",
      "administrator machine_identity.disable success: machine_identity renamed",
      "administrator machine_identity.enable success: machine_identity renamed",
      "administrator machine_identity.delete success: machine_identity renamed",
      "administrator machine_identity.delete failure: machine_identity administrator RESOURCE_CONFLICT",
    ]);
  });
});
