import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { useServer, usualPassword } from "../harness/server.ts";
import { startFront } from "./front.ts";
import { Holdfast } from "./holdfast.ts";

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

describe("logging in with holdfast", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  before(async () => {
    await server.user("alice", { roles: ["editor"] });
  });
  /** Somebody at a machine of their own, which knows nothing yet. */
  let cli: Holdfast;
  let folder: string;
  let file: string;
  beforeEach(() => {
    cli = new Holdfast({});
    folder = join(cli.home, "holdfast");
    file = join(folder, "credentials.json");
  });
  afterEach(() => cli.remove());

  const login = (args: string, input: string, env: Record<string, string> = {}) =>
    cli.run(`login --url ${server.url} ${args}`, { input, env });
  const loginAsMachine = () =>
    login(`--client-id ${server.clientId} --client-secret-stdin`, `${server.clientSecret}\n`);
  const loginAsAlice = () => login("--username alice --password-stdin", `${usualPassword}\n`);
  const whoami = async (env: Record<string, string> = {}) => {
    const { status, stdout } = await cli.run("whoami --json", { env });
    return status === 0 ? JSON.parse(stdout).name : status;
  };

  it("keeps the token of a person or a machine in a file that nobody else can read, and says nothing of the secret", async () => {
    const asAlice = await loginAsAlice();
    const name = await whoami();
    const asMachine = await loginAsMachine();

    expect([asAlice, asMachine]).to.deep.equal([
      { status: 0, stdout: "", stderr: `holdfast: logged in at ${server.url} as alice\n` },
      { status: 0, stdout: "", stderr: `holdfast: logged in at ${server.url} as ${server.clientId}\n` },
    ]);
    expect([name, await whoami()]).to.deep.equal(["alice", "administrator"]);
    expect([mode(folder), mode(file), readdirSync(folder)]).to.deep.equal(["700", "600", ["credentials.json"]]);
    const { url, expires_at, token, ...others } = JSON.parse(readFileSync(file, "utf8"));
    expect(url).to.equal(server.url);
    expect(Date.parse(expires_at)).to.be.greaterThan(Date.now());
    expect(token).to.be.a("string");
    expect(others).to.deep.equal({});
  });

  const wrong: [string, string, string, number][] = [
    ["a wrong password", "--username alice --password-stdin", "wrong horse battery", 3],
    ["a user that is not there", "--username nobody --password-stdin", usualPassword, 3],
    ["a wrong client secret", "--client-id ID --client-secret-stdin", "hfcs_wrong", 3],
    ["a secret from a terminal that is not there", "--username alice", "", 2],
    ["nobody in particular", "", "", 2],
  ];
  for (const [what, args, input, expected] of wrong) {
    it(`refuses ${what}, and keeps what was there`, async () => {
      await loginAsMachine();

      const { status, stdout, stderr } = await login(args.replace("ID", server.clientId), input);

      expect({ status, stdout }).to.deep.equal({ status: expected, stdout: "" });
      if (input !== "") expect(stderr).not.to.include(input);
      expect(await whoami()).to.equal("administrator");
    });
  }

  it("keeps nothing of a server that cannot prove that it knows the password", async () => {
    const front = await startFront({
      target: server.url,
      intercept: ({ url }, response) => {
        if (!url?.endsWith("/VerifySrp")) return false;
        // A token, and no proof.
        response.writeHead(200, { "content-type": "application/proto" });
        response.end(Buffer.from("0a05746f6b656e18901c", "hex"));
        return true;
      },
    });

    const { status, stderr } = await cli.run(`login --url ${front.url} --username alice --password-stdin`, {
      input: usualPassword,
    });

    await front.close();
    expect(status).to.equal(3);
    expect(stderr).to.include("the server's proof is wrong");
    expect(existsSync(file)).to.equal(false);
  });

  describe("takes credentials", () => {
    it("from the environment before the file: a token, then a client id with its secret", async () => {
      await loginAsAlice();
      const carol = await server.as("carol", ["viewer"]);
      const machine = {
        HOLDFAST_URL: server.url,
        HOLDFAST_CLIENT_ID: server.clientId,
        HOLDFAST_CLIENT_SECRET: server.clientSecret,
      };

      const names = [
        await whoami(),
        await whoami(machine),
        await whoami({ ...machine, HOLDFAST_TOKEN: carol.token ?? "" }),
        await whoami({ ...machine, HOLDFAST_TOKEN: "" }),
      ];

      expect(names).to.deep.equal(["alice", "administrator", "carol", "administrator"]);
      const loggedIn = await login("--username alice --password-stdin", usualPassword, machine);
      expect(loggedIn.stderr).to.match(/ as alice\nholdfast: the credential in the environment is used instead, until/);
    });

    it("from the file only for the server that they are for", async () => {
      await loginAsAlice();
      const seen: string[] = [];
      const other = await startFront({
        intercept: ({ headers }, response) => {
          seen.push(String(headers.authorization));
          response.end();
          return true;
        },
      });

      const { status, stderr } = await cli.run("whoami", { env: { HOLDFAST_URL: other.url } });

      await other.close();
      expect(status).to.equal(3);
      expect(stderr).to.include(`is for ${server.url}, not for ${other.url}`);
      expect(seen).to.deep.equal([]);
    });

    const exposed: [string, number, number, RegExp][] = [
      ["can be read by others", 0o700, 0o640, /credentials\.json can be read by other users, so it is not used/],
      ["can be replaced by others", 0o777, 0o600, /holdfast can be changed by other users, so it is not used/],
    ];
    for (const [what, folderMode, fileMode, message] of exposed) {
      it(`not from a file that ${what}`, async () => {
        await loginAsAlice();
        chmodSync(folder, folderMode);
        chmodSync(file, fileMode);

        const { status, stderr } = await cli.run("whoami");
        await loginAsAlice();

        expect(status).to.equal(3);
        expect(stderr).to.match(message);
        expect([mode(folder), mode(file)]).to.deep.equal(["700", "600"]);
      });
    }

    it("not when they have expired, are damaged, or are not there", async () => {
      const nobody = await cli.run("whoami");
      await loginAsAlice();
      const stored = JSON.parse(readFileSync(file, "utf8"));
      writeFileSync(file, JSON.stringify({ ...stored, expires_at: "2020-01-01T00:00:00.000Z" }));
      const expired = await cli.run("whoami");
      writeFileSync(file, "{");
      const damaged = await cli.run("whoami");

      expect([nobody.status, expired.status, damaged.status]).to.deep.equal([3, 3, 3]);
      expect(nobody.stderr).to.match(/^holdfast: nobody is logged in\n/);
      expect(expired.stderr).to.match(/^holdfast: the login has expired\n/);
      expect(damaged.stderr).to.match(/^holdfast: .*credentials\.json is damaged/);
    });
  });

  describe("logout", () => {
    it("ends the token and removes the file", async () => {
      await loginAsAlice();
      const { token } = JSON.parse(readFileSync(file, "utf8"));

      const { status } = await cli.run("logout");
      const again = await cli.run("logout");

      expect([status, again.status, existsSync(file)]).to.deep.equal([0, 0, false]);
      expect(await whoami({ HOLDFAST_URL: server.url, HOLDFAST_TOKEN: token })).to.equal(3);
    });

    it("removes the file although the server is away, and says that the token goes on", async () => {
      await loginAsAlice();
      const stored = JSON.parse(readFileSync(file, "utf8"));
      writeFileSync(file, JSON.stringify({ ...stored, url: "http://127.0.0.1:1" }));

      const { status, stderr } = await cli.run("logout");

      expect([status, existsSync(file)]).to.deep.equal([8, false]);
      expect(stderr).to.include(`ends only at ${stored.expires_at}`);
    });
  });

  describe("passwords", () => {
    const newUser = async (username: string) => {
      const { body } = await server.admin.rest("POST", "/api/v1/users", { username, roles: ["viewer"] });
      return body.enrollment_token as string;
    };
    const enroll = (username: string, ...lines: string[]) =>
      cli.run(`enroll --url ${server.url} --username ${username} --stdin`, { input: lines.join("\n") });
    const loginAs = async (username: string, password: string) =>
      (await login(`--username ${username} --password-stdin`, password)).status;

    it("are set with the enrollment token, and are not usable before", async () => {
      const token = await newUser("Dora");

      const before = await loginAs("Dora", "a long enough one");
      const wrongToken = await enroll("Dora", "hfe_wrong", "a long enough one");
      const { status, stdout, stderr } = await enroll("Dora", token, "a long enough one");

      expect([before, wrongToken.status]).to.deep.equal([3, 3]);
      expect({ status, stdout }).to.deep.equal({ status: 0, stdout: "" });
      expect(stderr).to.include(`holdfast login --url ${server.url} --username Dora`);
      expect(await loginAs("dora", "a long enough one")).to.equal(0);
    });

    it("of fewer than 12 characters are refused, with the reason", async () => {
      const token = await newUser("erin");

      const short = await enroll("erin", token, "elevenchars");

      expect(short.status).to.equal(2);
      expect(short.stderr)
        .to.match(/12 characters or more\n.*database can try/)
        .and.not.to.include("elevenchars");
      expect((await enroll("erin", token, "🔑".repeat(12))).status).to.equal(0);
    });

    it("that lack what the organization's policy asks for are refused, by what they lack", async () => {
      const { admin, organizationId } = await server.otherOrganization();
      const password_policy = { min_length: 14, require_uppercase: true, require_numbers: true };
      await admin.rest("PUT", `/api/v1/organizations/${organizationId}`, { password_policy });
      const { body } = await admin.rest("POST", "/api/v1/users", { username: "gina", roles: ["viewer"] });
      const good = "A long enough 1";

      const weak = await enroll("gina", body.enrollment_token, "long enough 1");
      const strong = await enroll("gina", body.enrollment_token, good);
      await loginAs("gina", good);
      const changed = await cli.run("password --stdin", { input: `${good}\na long enough one\n` });

      expect([weak.status, strong.status, changed.status]).to.deep.equal([2, 0, 2]);
      expect(weak.stderr).to.include("a password needs 14 characters or more, and an upper-case letter\n");
      expect(changed.stderr).to.include("a password needs an upper-case letter, and a digit\n");
      expect(await loginAs("gina", good)).to.equal(0);
    });

    it("are changed by whoever knows the present one, which ends other logins and keeps this one", async () => {
      await server.user("frank");
      await loginAs("frank", usualPassword);
      const { token: earlier } = JSON.parse(readFileSync(file, "utf8"));
      const change = (present: string, fresh: string) =>
        cli.run("password --stdin", { input: `${present}\n${fresh}\n` });

      const wrongPassword = await change("wrong horse battery", "another long one");
      const short = await change(usualPassword, "short");
      const changed = await change(usualPassword, "another long one");

      expect([wrongPassword.status, short.status, changed.status]).to.deep.equal([3, 2, 0]);
      expect(await whoami()).to.equal("frank");
      expect(await whoami({ HOLDFAST_URL: server.url, HOLDFAST_TOKEN: earlier })).to.equal(3);
      expect([await loginAs("frank", usualPassword), await loginAs("frank", "another long one")]).to.deep.equal([3, 0]);
    });
  });

  describe("whoami", () => {
    it("says who is logged in and what they may do; its status says whether that is all that was asked", async () => {
      await loginAsAlice();

      const described = await cli.print("whoami");
      const allowed = await cli.run("whoami --can secret:read secret:write");
      const refused = await cli.run(`whoami --can secret:read identity:write --project ${server.projectId}`);
      const unknown = await cli.run("whoami --can no:such");

      expect(described)
        .to.match(/^name +alice\ntype +user\n/)
        .and.to.match(/\nroles +editor\n/);
      expect([allowed.status, refused.status, unknown.status]).to.deep.equal([0, 4, 7]);
      expect(refused.stdout).to.match(/secret:read +allowed\nidentity:write +not allowed\n$/);
    });
  });
});
