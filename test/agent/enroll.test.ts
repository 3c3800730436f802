import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Holdfast, type RunOptions } from "../cli/holdfast.ts";
import { useServer } from "../harness/server.ts";
import { newEnrollmentToken } from "./agent-host.ts";

describe("holdfast agent enroll", function () {
  // Each test starts a program.
  this.timeout(60_000);
  const server = useServer({ KEYTAB_ENABLED: "true" });
  let cli: Holdfast;
  beforeEach(() => {
    cli = new Holdfast({});
  });
  afterEach(() => cli.remove());

  const stateFolder = () => join(cli.home, "state");
  const credentials = () => JSON.parse(readFileSync(join(stateFolder(), "credentials.json"), "utf8"));
  const enroll = (args: string, { env, ...options }: RunOptions) =>
    cli.run(`agent enroll ${args}`.trim(), { ...options, env: { SERVICE_AGENT_STATE_DIR: stateFolder(), ...env } });

  it("takes the token from standard input, and keeps credentials that work in a file of its own", async () => {
    const { status, stderr } = await enroll(`--url ${server.url}`, { input: await newEnrollmentToken(server) });

    const { agent_id: id, client_id: clientId, client_secret: secret, server_urls: urls } = credentials();
    expect({ status, urls }).to.deep.equal({ status: 0, urls: [server.url] });
    expect(stderr).to.include(id).and.not.include(secret);
    expect((await server.login(clientId, secret)).id).to.equal(id);
    expect((statSync(join(stateFolder(), "credentials.json")).mode & 0o777).toString(8)).to.equal("600");
    expect((statSync(stateFolder()).mode & 0o777).toString(8)).to.equal("700");
  });

  it("takes the token from a file or from the environment, and the first replica that is there", async () => {
    const file = join(cli.home, "token");
    writeFileSync(file, `${await newEnrollmentToken(server)}\n`);
    const urls = `http://127.0.0.1:1,${server.url}`;

    const byFile = await enroll(`--url ${urls} --token-file ${file}`, {});
    const first = credentials();
    const env = { SERVICE_SERVER_URL: urls, SERVICE_ENROLLMENT_TOKEN: await newEnrollmentToken(server) };
    const byEnvironment = await enroll("--force", { env });

    expect([byFile.status, byEnvironment.status]).to.deep.equal([0, 0]);
    expect(first.server_urls).to.deep.equal(["http://127.0.0.1:1", server.url]);
    expect(credentials().agent_id).not.to.equal(first.agent_id);
  });

  it("keeps the credentials that are there, and the token unused, unless it is forced", async () => {
    await enroll(`--url ${server.url}`, { input: await newEnrollmentToken(server) });
    const before = credentials();
    const token = await newEnrollmentToken(server);

    const refused = await enroll(`--url ${server.url}`, { input: token });

    expect(refused.status).to.equal(6);
    expect(refused.stderr).to.include("--force");
    expect(credentials()).to.deep.equal(before);
    expect((await enroll(`--url ${server.url} --force`, { input: token })).status).to.equal(0);
    expect(credentials().agent_id).not.to.equal(before.agent_id);
  });

  it("uses no token up when its credentials could not be kept, or others could replace them", async () => {
    const token = await newEnrollmentToken(server);
    writeFileSync(join(cli.home, "file"), "");
    mkdirSync(join(cli.home, "open"));
    chmodSync(join(cli.home, "open"), 0o777);

    const nowhere = { SERVICE_AGENT_STATE_DIR: join(cli.home, "file", "state") };
    const lost = await enroll(`--url ${server.url}`, { input: token, env: nowhere });
    const open = { SERVICE_AGENT_STATE_DIR: join(cli.home, "open") };
    const exposed = await enroll(`--url ${server.url}`, { input: token, env: open });

    expect(lost.stderr).to.include("SERVICE_AGENT_STATE_DIR");
    expect(exposed.stderr).to.include("can be changed by other users").and.include("chmod 700");
    expect([lost.status, exposed.status]).to.deep.equal([2, 2]);
    expect((await enroll(`--url ${server.url}`, { input: token })).status).to.equal(0);
  });

  const refusals: [string, string, RunOptions, number, string][] = [
    ["a token that nobody made", "--url URL", { input: "hfa_nobody" }, 3, "have another one made"],
    ["a server that is away", "--url http://127.0.0.1:1", { input: "hfa_any" }, 8, "ECONNREFUSED"],
    ["no server", "", { input: "hfa_any" }, 2, "--url"],
    ["a URL with a path", "--url http://localhost/api", { input: "hfa_any" }, 2, "--url"],
    ["no token", "--url URL", {}, 2, "enrollment token"],
    ["a file that is not there", "--url URL --token-file /nowhere", {}, 2, "/nowhere"],
    ["a bad setting", "--url URL", { env: { SERVICE_AGENT_ROOTS: "relative" } }, 2, "SERVICE_AGENT_ROOTS"],
  ];
  for (const [what, args, options, status, told] of refusals) {
    it(`says what is wrong with ${what}, and keeps nothing`, async () => {
      const run = await enroll(args.replace("URL", server.url), options);

      expect(run.status).to.equal(status);
      expect(run.stderr).to.include(told).and.not.include("hfa_");
      expect(() => credentials()).to.throw("ENOENT");
    });
  }
});
