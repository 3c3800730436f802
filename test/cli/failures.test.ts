import { writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { expect } from "chai";
import { useServer } from "../harness/server.ts";
import { makeCertificate } from "../server/wire/certificate.ts";
import { answerLimited, type Front, startFront } from "./front.ts";
import { administrator, useHoldfast } from "./holdfast.ts";

describe("a command of holdfast that fails", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  let front: Front | undefined;
  afterEach(async () => {
    await front?.close();
    front = undefined;
  });

  /** What one reads on standard error, and the request id apart. */
  const failure = async (args: string, env: Record<string, string> = {}, input = "") => {
    const { status, stdout, stderr } = await cli().run(args, { env, input });
    expect(stdout).to.equal("");
    const [, told = "", requestId] = /^([^]*?)(?: {2}request id: (\S+)\n)?$/.exec(stderr) ?? [];
    return { status, told, requestId };
  };

  it("tells the server's reason, the fields at fault and the request id, and ends with the status of its kind", async () => {
    await server.secret({ key: "TAKEN" });
    await server.secret({ key: "FREE" });
    const viewer = await server.as("viewer", ["viewer"]);
    const asViewer = { HOLDFAST_TOKEN: viewer.token ?? "" };

    const failures = {
      authentication: await failure("secret list", { HOLDFAST_TOKEN: "hf_unknown" }),
      permission: await failure("secret set TAKEN", asViewer, "value"),
      notFound: await failure("secret rollback TAKEN --to 9"),
      conflict: await failure("secret copy FREE --new-key TAKEN"),
      invalid: await failure("secret set LARGE", {}, "x".repeat(65_537)),
    };

    expect(Object.values(failures).map(({ status }) => status)).to.deep.equal([3, 4, 5, 6, 7]);
    for (const { requestId } of Object.values(failures)) expect(requestId).to.match(/^[\w-]{36}$/);
    expect(failures.authentication.told).to.equal("holdfast: the token is invalid\n");
    expect(failures.permission.told).to.include("holdfast: permission secret:write is required");
    expect(failures.notFound.told).to.equal("holdfast: version not found\n  version does not exist\n");
    expect(failures.conflict.told).to.equal(
      "holdfast: key already exists in this project\n  key already exists in this project\n",
    );
    expect(failures.invalid.told)
      .to.match(/^holdfast: Request validation failed\n {2}value .*65536.*\n$/)
      .and.not.to.include("xxx");
  });

  const misused: [string, string][] = [
    ["an unknown command", "secrets"],
    ["no command", "secret"],
    ["a missing argument", "secret get"],
    ["an argument too many", "secret get KEY hunter2"],
    ["an unknown option", "login --password=hunter2"],
    ["a number that is none", "secret get KEY --version one"],
    ["no project", "secret get KEY"],
    ["a file that is not there", "secret set KEY --project default --file nowhere"],
    ["a URL that is none", "login --url localhost --client-id x"],
  ];
  for (const [what, args] of misused) {
    it(`ends with status 2 for ${what}, and repeats nothing that could be a secret`, async () => {
      const { status, told } = await failure(args, { HOLDFAST_PROJECT_ID: "" });

      expect(status).to.equal(2);
      if (args !== "secret") expect(told).to.match(/^holdfast: \S/);
      expect(told).not.to.include("hunter2");
    });
  }

  describe("because of the server", () => {
    const token = () => ({ HOLDFAST_TOKEN: server.admin.token ?? "" });
    const behind = async (intercept: (request: IncomingMessage, response: ServerResponse) => boolean) => {
      front = await startFront({ target: server.url, intercept });
      return { HOLDFAST_URL: front.url, ...token() };
    };

    it("ends with status 8 when it is away", async () => {
      const { status, told } = await failure("secret list", { HOLDFAST_URL: "http://127.0.0.1:1", ...token() });

      expect(status).to.equal(8);
      expect(told).to.match(/^holdfast: the server cannot be reached: .*ECONNREFUSED.*\n$/);
    });

    it("tries a read again when it was away for a moment, and a write not", async () => {
      const tries = { ListSecrets: 0, CreateSecret: 0 };
      const env = await behind(({ url = "" }, response) => {
        const method = url.split("/").at(-1) as keyof typeof tries;
        tries[method] += 1;
        if (method === "ListSecrets" && tries.ListSecrets > 2) return false;
        response.writeHead(503, { "content-type": "application/json", "retry-after": "0" });
        response.end('{"code":"unavailable","message":"for a moment"}');
        return true;
      });

      const { status } = await failure("secret set BRIEFLY", env, "value");

      expect(status).to.equal(8);
      expect(tries).to.deep.equal({ ListSecrets: 3, CreateSecret: 1 });
    });

    it("ends with status 8 when the limit of requests is still exceeded after some tries, or will be for long", async () => {
      let tries = 0;
      const env = await behind((_, response) => answerLimited(response, tries++ < 5 ? 0 : 600));

      const afterTries = await failure("secret list", env);
      const triesOfFirst = tries;
      const atOnce = await failure("secret list", env);

      expect([afterTries.status, triesOfFirst, atOnce.status, tries]).to.deep.equal([8, 5, 8, 6]);
    });

    it("ends with status 1 for an answer that is not Holdfast's", async () => {
      const env = await behind((_, response) => {
        response.writeHead(404, { "content-type": "text/html" });
        response.end("<h1>\u001b[2JHello</h1>");
        return true;
      });

      const { status, told } = await failure("secret list", env);

      expect(status).to.equal(1);
      expect(told).to.match(/^holdfast: the answer is not that of a Holdfast server: [ -~]*\n$/);
    });

    it("trusts no certificate of a private authority, unless HOLDFAST_CA_FILE names it", async function () {
      const certificate = makeCertificate();
      if (certificate === undefined) {
        console.log("      (openssl is not installed, so there is no certificate)");
        this.skip();
      }
      front = await startFront({ target: server.url, tls: certificate });
      const env = { HOLDFAST_URL: front.url };
      writeFileSync(join(cli().home, "ca.pem"), certificate.cert);
      certificate.remove();

      const untrusted = await failure("secret list", env);
      const trusted = await cli().run("secret list", { env: { ...env, HOLDFAST_CA_FILE: "ca.pem" } });
      const unreadable = await failure("secret list", { ...env, HOLDFAST_CA_FILE: "nowhere.pem" });

      expect([untrusted.status, trusted.status, unreadable.status]).to.deep.equal([8, 0, 2]);
      expect(untrusted.told).to.include("certificate is not trusted").and.to.include("HOLDFAST_CA_FILE");
    });
  });
});
