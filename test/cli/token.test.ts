import { expect } from "chai";
import { useServer } from "../harness/server.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("holdfast token", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  const rest = async (path: string) => (await server.admin.rest("GET", `/api/v1/api-tokens${path}`)).body;
  const daysUntil = (time: string) => Math.round((Date.parse(time) - Date.now()) / 86_400_000);

  it("creates a token that may do what it was made for, and prints it alone", async () => {
    const options =
      "--permission secret:read,project:read --project default --allowed-ip 127.0.0.1 --allowed-ip ::1 --expires-in-days 7";

    const { status, stdout, stderr } = await cli().run(`token create ci ${options}`);

    expect(status).to.equal(0);
    expect(stdout).to.match(/^hf_[\w-]{43}\n$/);
    expect(stderr).to.match(/^holdfast: the token ci is shown this once; it ends \S+Z\n$/);
    const [record] = (await rest("")).data;
    expect(record).to.include({ name: "ci", status: "active" });
    expect(record.permissions).to.deep.equal(["secret:read", "project:read"]);
    expect(record.project_ids).to.deep.equal([server.projectId]);
    expect(record.allowed_ips).to.deep.equal(["127.0.0.1", "::1"]);
    expect(daysUntil(record.expires_at)).to.equal(7);
    await server.secret({ key: "TOKEN_MAY_READ", value: "v" });
    const asToken = { HOLDFAST_TOKEN: stdout.trim(), HOLDFAST_CLIENT_ID: "", HOLDFAST_CLIENT_SECRET: "" };
    const read = await cli().run("secret get TOKEN_MAY_READ", { env: asToken });
    const written = await cli().run("secret set TOKEN_MAY_READ", { env: asToken, input: "w" });
    expect([read.stdout, written.status]).to.deep.equal(["v", 4]);
    expect(written.stderr).to.match(/^holdfast: permission secret:write is required/);
  });

  it("lets a token end after 90 days, or never when that is said", async () => {
    const usual = await cli().json("token create usual");
    const endless = await cli().json("token create endless --never-expires");

    expect(daysUntil(usual.expires_at)).to.equal(90);
    expect(endless.expires_at).to.equal(null);
    const { token, ...record } = endless;
    expect(token).to.match(/^hf_/);
    expect(record).to.deep.equal(await rest(`/${endless.id}`));
  });

  it("lists tokens, and ends one by its prefix or id", async () => {
    const one = await cli().json("token create one");
    const two = await cli().json("token create two");

    const byPrefix = await cli().run(`token revoke ${one.prefix}`);
    const byId = await cli().run(`token revoke ${two.id}`);
    const again = await cli().run(`token revoke ${one.prefix}`);
    const listed = await cli().print("token list");

    expect([byPrefix.status, byId.status, again.status]).to.deep.equal([0, 0, 5]);
    expect(listed).to.match(/^NAME +PREFIX +STATUS +EXPIRES +LAST USED +PERMISSIONS +ID\n/);
    expect(listed).to.match(new RegExp(`\\none +${one.prefix} +revoked +\\S+Z +- +all of the owner's +${one.id}\\n`));
    expect(listed).not.to.include(one.token);
    expect(await cli().json("token list")).to.deep.equal((await rest("")).data);
  });

  const refused: [string, string, number][] = [
    ["a permission that is none", "token create x --permission no:such", 7],
    ["two lives", "token create x --never-expires --expires-in-days 3", 2],
    ["a life that is no number", "token create x --expires-in-days soon", 2],
    ["a project that is not there", "token create x --project nowhere", 5],
  ];
  for (const [what, args, status] of refused) {
    it(`refuses ${what}`, async () => {
      expect((await cli().run(args)).status).to.equal(status);
    });
  }
});
