import { expect } from "chai";
import { useServer } from "../harness/server.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast admin", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  const rest = async (path: string) => (await server.admin.rest("GET", `/api/v1/${path}`)).body;

  describe("user", () => {
    it("creates people with their roles, and prints the token to enroll with alone", async () => {
      const { stdout, stderr } = await cli().run([
        "admin",
        "user",
        "create",
        "Alice",
        "--role",
        "editor,auditor",
        "--project-role",
        "default=admin",
        "--display-name",
        "Alice A.",
        "--email",
        "a@example.org",
        "--rate-limit",
        "500",
      ]);

      expect(stdout).to.match(/^hfe_\S+\n$/);
      expect(stderr).to.match(/^holdfast: the token that alice enrolls with, .* is shown this once; it ends \S+Z\n$/);
      const user = await cli().json("admin user get alice");
      expect(user).to.deep.equal(await rest(`users/${user.id}`));
      expect(user).to.include({
        username: "alice",
        display_name: "Alice A.",
        email: "a@example.org",
        rate_limit_per_minute: 500,
        status: "pending",
      });
      expect(user.roles).to.have.members(["editor", "auditor"]);
      expect(user.project_roles).to.deep.equal([{ project_id: server.projectId, role: "admin" }]);
    });

    it("changes what is mentioned, and clears what is mentioned as empty", async () => {
      await cli().print("admin user create bob --role editor --project-role default=viewer --email b@example.org");

      const changed = await cli().print(["admin", "user", "update", "bob", "--display-name", "Robert", "--email", ""]);
      const without = await cli().json("admin user update bob --role auditor --project-role=");

      expect(changed)
        .to.match(/\ndisplay name +Robert\nemail +-\n/)
        .and.to.match(/\nroles +editor\n/);
      expect(without).to.include({ display_name: "Robert", email: null });
      expect([without.roles, without.project_roles]).to.deep.equal([["auditor"], []]);
    });

    it("goes through a life: new token, disabled, enabled, removed", async () => {
      const first = await cli().print("admin user create carol");

      const second = await cli().print("admin user reset-enrollment carol");
      const disabled = await cli().json("admin user disable carol");
      const enabled = await cli().print("admin user enable carol");
      const unasked = await cli().run("admin user rm carol");
      const removed = await cli().run("admin user rm carol --yes");
      const gone = await cli().run("admin user get carol");

      expect(second)
        .to.match(/^hfe_\S+\n$/)
        .and.not.to.equal(first);
      expect(disabled.status).to.equal("disabled");
      expect(enabled).to.match(/\nstatus +pending\n/);
      expect([unasked.status, removed.status, gone.status]).to.deep.equal([2, 0, 5]);
    });

    it("lists people", async () => {
      await cli().print(["admin", "user", "create", "dan", "--display-name", "Searched for"]);

      const listed = await cli().print(["admin", "user", "list", "--search", "searched", "--status", "pending"]);

      expect(listed).to.match(
        /^USERNAME +DISPLAY NAME +STATUS +ROLES +LAST LOGIN +ID\ndan +Searched for +pending +- +\S+\n$/,
      );
      expect(await cli().json("admin user list")).to.deep.equal((await rest("users?per_page=100")).data);
    });
  });

  describe("identity", () => {
    it("creates machine identities, and client secrets that it prints alone, to log in with", async () => {
      const created = await cli().json(
        "admin identity create ci --project-role default=viewer --allowed-ip 127.0.0.0/8 --token-ttl-seconds 600 --rate-limit 1000",
      );
      const secret = await cli().run(
        "admin identity secret create ci --description pipeline --ttl-hours 1 --max-uses 9",
      );
      const name = await cli().json("whoami", {
        env: { HOLDFAST_CLIENT_ID: created.client_id, HOLDFAST_CLIENT_SECRET: secret.stdout.trim() },
      });

      expect(created).to.include({ access_token_ttl_seconds: 600, rate_limit_per_minute: 1000 });
      expect(secret.stdout).to.match(/^hfcs_\S+\n$/);
      expect(secret.stderr).to.match(/^holdfast: the client secret of ci is shown this once; it ends \S+Z\n$/);
      expect(name.name).to.equal("ci");
      expect(await cli().json("admin identity get ci")).to.deep.equal(await rest(`machine-identities/${created.id}`));
      expect(await cli().print("admin identity secret list ci")).to.match(
        /\nhfcs_\S+ +active +1 of 9 +\S+Z +pipeline +\S+\n$/,
      );
      expect(await cli().json("admin identity secret list ci")).to.deep.equal(
        (await rest(`machine-identities/${created.id}/client-secrets`)).data,
      );
    });

    it("goes through a life: secret ended, disabled, enabled, removed", async () => {
      await cli().print("admin identity create life --role viewer");
      const { prefix } = await cli().json("admin identity secret create life");

      const revoked = await cli().run(`admin identity secret revoke life ${prefix}`);
      const again = await cli().run(`admin identity secret revoke life ${prefix}`);
      const disabled = await cli().json("admin identity disable life");
      const enabled = await cli().print("admin identity enable life");
      const removed = await cli().run("admin identity rm life --yes");
      const gone = await cli().run("admin identity get life");

      expect([revoked.status, again.status]).to.deep.equal([0, 5]);
      expect(disabled.status).to.equal("disabled");
      expect(enabled).to.match(/\nstatus +active\nroles +viewer\n/);
      expect([removed.status, gone.status]).to.deep.equal([0, 5]);
    });

    it("lists machine identities", async () => {
      const listed = await cli().print("admin identity list --search ADMINISTRATOR");

      expect(listed).to.match(
        /^NAME +CLIENT ID +STATUS +ROLES +LAST LOGIN +ID\nadministrator +\S+ +active +admin, gateway:admin +\S+Z +\S+\n$/,
      );
      expect(await cli().json("admin identity list")).to.deep.equal(
        (await rest("machine-identities?per_page=100")).data,
      );
    });
  });

  describe("role", () => {
    it("goes through a life: created, changed, listed, removed", async () => {
      const created = await cli().json(
        "admin role create deployer --permission secret:read,project:read --permission secret:write --description x",
      );
      const changed = await cli().print([
        "admin",
        "role",
        "update",
        "deployer",
        "--permission",
        "secret:read",
        "--description",
        "",
        "--name",
        "reader",
      ]);
      const listed = await cli().json("admin role list");
      const expected = (await rest("roles")).data;
      const table = await cli().print("admin role list");
      const removed = await cli().run("admin role rm reader --yes");

      expect(created.permissions).to.have.members(["secret:read", "project:read", "secret:write"]);
      expect(changed).to.match(/^name +reader\nid +\S+\npermissions +secret:read\ndescription *\n$/);
      expect(listed).to.deep.equal(expected);
      expect(table)
        .to.match(/^NAME +KIND +PERMISSIONS +DESCRIPTION\nadmin +built in /)
        .and.to.match(/\nreader +own +secret:read\n/);
      expect(removed.status).to.equal(0);
    });

    it("leaves built-in roles as they are", async () => {
      const { status, stderr } = await cli().run("admin role rm viewer --yes");

      expect(status).to.equal(2);
      expect(stderr).to.equal("holdfast: viewer is a built-in role, which does not change\n");
    });
  });
});
