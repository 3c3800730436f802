import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { stripVTControlCharacters } from "node:util";
import { expect } from "chai";
import { until } from "../faults/own-engines.ts";
import { TestGateway } from "../harness/gateway.ts";
import { useServer, usualPassword } from "../harness/server.ts";
import { registerPair } from "./gateways.ts";
import { administrator, commandLine, useHoldfast } from "./holdfast.ts";

const [bold, notBold] = ["\u001b[1m", "\u001b[22m"] as const;

/** What is typed, once it is known. */
type Answer = string | (() => Promise<string>);

describe("holdfast on a terminal", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => ({ ...administrator(server), ...server.environment() }));
  let running: ChildProcess | undefined;
  before(async function () {
    if (spawnSync("script", ["--version"]).status !== 0) {
      console.log("      (script of util-linux is not installed, so there is no terminal to run on)");
      this.skip();
    }
  });
  afterEach(() => running?.kill("SIGKILL"));

  /** Runs a command line on a terminal, and types each answer, or does what answers it, when what it answers is shown. */
  const type = async (args: string, answers: readonly [shown: string, typed: Answer][] = [], before = "") => {
    const command = `${before}exec ${commandLine(args)}`;
    const child = spawn("script", ["-qefc", command, "/dev/null"], {
      env: cli().environment({ TERM: "xterm" }),
      cwd: cli().home,
    });
    running = child;
    let screen = "";
    child.stdout.on("data", (chunk) => (screen += chunk));
    const ended = new Promise<number>((resolve) => child.once("close", (code) => resolve(code ?? -1)));
    for (const [shown, typed] of answers) {
      await until(() => stripVTControlCharacters(screen).includes(shown));
      child.stdin.write(typeof typed === "string" ? typed : await typed());
    }
    const status = await ended;
    return { status, screen, text: stripVTControlCharacters(screen).replaceAll("\r\n", "\n") };
  };

  describe("asks for", () => {
    it("passwords, without showing them", async () => {
      await server.user("alice");

      const { status, text } = await type("login --username alice", [["Password:", `${usualPassword}\r`]]);

      expect(status).to.equal(0);
      expect(text).to.include(`logged in at ${server.url} as alice`).and.not.to.include(usualPassword);
    });

    it("a new password twice, after the present one was right, and keeps the old one when the two differ", async () => {
      await server.user("bob");
      const wrong = await type("password --username bob", [["Present password:", "wrong horse\r"]]);
      const different = await type("password --username bob", [
        ["Present password:", `${usualPassword}\r`],
        ["New password:", "first long one\r"],
        ["The same again:", "second long one\r"],
      ]);
      const changed = await type("password --username bob", [
        ["Present password:", `${usualPassword}\r`],
        ["New password:", "another long one\r"],
        ["The same again:", "another long one\r"],
      ]);

      expect([wrong.status, different.status, changed.status]).to.deep.equal([3, 2, 0]);
      expect(different.text).to.include("the two passwords differ").and.not.to.include("long one");
    });

    it("the value of a secret, and shows one on a line of its own", async () => {
      const set = await type("secret set TYPED", [["Value:", "correct horse\r"]]);
      const got = await type("secret get TYPED");

      expect(set.text).to.include("created TYPED, version 1\n").and.not.to.include("correct horse");
      expect(got.text).to.equal("correct horse\n");
    });

    it("consent before it deletes", async () => {
      await server.secret({ key: "PRECIOUS" });

      const refused = await type("secret rm PRECIOUS", [["Delete PRECIOUS?", "n\r"]]);
      const kept = await cli().run("secret get PRECIOUS");
      const agreed = await type("secret rm PRECIOUS", [["Delete PRECIOUS?", "y\r"]]);

      expect(refused.text).to.include("nothing was deleted");
      expect([refused.status, kept.status, agreed.status]).to.deep.equal([0, 0, 0]);
      expect((await cli().run("secret get PRECIOUS")).status).to.equal(5);
    });

    it("consent before it fails over, once it has shown what would happen", async () => {
      const { primary } = await registerPair(server, "lisbon");
      await server.admin.rest("POST", `/api/v1/admin/gateways/${primary.id}/deactivate`, { mark_failed: true });
      const question = "Fail lisbon over to lisbon-dr?";

      const refused = await type("failover activate lisbon", [[question, "n\r"]]);
      const agreed = await type("failover activate lisbon", [[question, "y\r"]]);

      expect(refused.text).to.match(/^holdfast: lisbon moves from lisbon-primary \(failed, /);
      expect(refused.text).to.include("nothing was changed").and.not.to.include("fencing token");
      expect(agreed.text).to.match(/\nDR gateway lisbon-dr is active in lisbon\nfencing token \d{19}\n$/);
      expect([refused.status, agreed.status]).to.deep.equal([0, 0]);
    });

    it("nothing more after Ctrl-C", async () => {
      const { status, text } = await type("secret set NEVER", [["Value:", "\u0003"]]);

      expect(status).to.equal(130);
      expect(text).to.match(/holdfast: interrupted\n$/);
    });
  });

  it("wraps tables to its width, with heads that stand out unless NO_COLOR says not to", async () => {
    await server.secret({
      key: "WIDE",
      description: "so long that it does not fit on a line of this terminal in one piece",
    });

    const narrow = await type("secret list --search WIDE", [], "stty cols 72; ");
    const plain = await type("secret list --search WIDE", [], "export NO_COLOR=1; ");

    expect(narrow.text.split("\n").map((line) => line.length)).to.satisfy(
      (widths: number[]) => Math.max(...widths) <= 72,
    );
    expect(narrow.text).to.match(/^KEY +ENVIRONMENT +VERSION +UPDATED +TAGS +DESCRIPTION\nWIDE /);
    expect(narrow.screen.split("\r\n")[0]).to.satisfy(
      (head: string) => head.startsWith(bold) && head.endsWith(notBold),
    );
    expect(plain.screen).to.include("KEY").and.not.to.include("\u001b");
    expect(plain.text).to.include("fit on a line of this terminal in one piece\n");
  });

  it("shows no keys of a keytab", async () => {
    const { status, text } = await type("keytab download kt_0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55");

    expect(status).to.equal(2);
    expect(text).to.equal("holdfast: keys are not for a terminal; name a file with --output\n");
  });

  it("shows how far long work is, and cleans up behind it", async () => {
    const { status, screen, text } = await type("admin rewrap");

    expect(status).to.equal(0);
    expect(screen).to.match(/checking [^a-z]* \d+ of \d+, \d+ a second, \d+ s left/);
    expect(text).to.match(/wrapped 0 keys anew; the master key opens (\d+) of \1\n$/);
  });

  it("draws how gateways are in one place, and again, until Ctrl-C", async () => {
    const gateway = await TestGateway.register(server, { environment: "porto", name: "porto-primary" });
    const deactivate = async () => {
      await server.admin.rest("POST", `/api/v1/admin/gateways/${gateway.id}/deactivate`, {});
      return "";
    };

    const { status, screen, text } = await type(
      "gateway status --watch",
      [
        ["porto-primary", deactivate],
        ["standby, deactivated", "\u0003"],
      ],
      "stty cols 100 rows 40; ",
    );

    const drawings = screen.split("\u001b[H").slice(1);
    expect(status).to.equal(0);
    expect(drawings.length).to.be.above(1);
    for (const drawing of drawings) expect(drawing).to.include("Z, every 2 s until Ctrl-C\u001b[K\r\n");
    expect(drawings[0])
      .to.match(/porto-primary +porto +primary +active /)
      .and.to.include("\u001b[J");
    expect(text).to.include("porto-primary").and.not.to.include("holdfast:");
  });

  it("draws no more than the screen holds", async () => {
    const { screen } = await type("gateway status --watch", [["more lines", "\u0003"]], "stty cols 100 rows 5; ");

    const [, first = ""] = screen.split("\u001b[H");
    expect(first.split("\u001b[J")[0]?.split("\r\n")).to.have.length(5);
  });

  it("lets a command that is run hear Ctrl-C once", async () => {
    const script =
      "process.on('SIGINT', () => console.log('got INT')); console.log('ready'); setTimeout(process.exit, 1000, 6)";

    const { status, text } = await type(`run -- node -e "${script}"`, [["ready", "\u0003"]]);

    expect(text.match(/got INT/g)).to.have.length(1);
    expect(status).to.equal(6);
  });
});
