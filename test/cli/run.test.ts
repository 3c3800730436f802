import { execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { until } from "../faults/own-engines.ts";
import { useServer } from "../harness/server.ts";
import { answerLimited, startFront } from "./front.ts";
import { administrator, type RunOptions, useHoldfast } from "./holdfast.ts";

const printEnvironment = ["env"];

describe("holdfast run", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const server = useServer();
  const cli = useHoldfast(() => administrator(server));
  const projects = new Map<string, string>();

  /** A project with these secrets, made once. */
  const project = async (name: string, secrets: Record<string, string>, environment?: string) => {
    const { body } = await server.admin.rest("POST", "/api/v1/projects", { name, key_scope: "environment" });
    projects.set(name, body.id);
    for (const [key, value] of Object.entries(secrets))
      await server.secret({ key, value, environment, project_id: body.id });
  };
  before(() => project("app", { DB_PASSWORD: "correct horse", EMPTY: "", LINES: "a\nb" }, "production"));

  const run = (options: string, command: readonly string[], more: RunOptions = {}) =>
    cli().run(["run", ...options.split(" "), "--", ...command], more);

  it("gives the command the secrets and what was in the environment, but not our own credentials", async () => {
    const token = server.admin.token ?? "";

    const { stdout } = await run("--project app --env production", printEnvironment, {
      env: { MINE: "kept", HOLDFAST_TOKEN: token, MALLOC_ARENA_MAX: "2" },
    });

    expect(stdout).to.include("DB_PASSWORD=correct horse\n").and.to.include("EMPTY=\n").and.to.include("LINES=a\nb\n");
    expect(stdout).to.include("MINE=kept\n").and.to.include(`HOLDFAST_CLIENT_ID=${server.clientId}\n`);
    expect(stdout).not.to.match(/HOLDFAST_CLIENT_SECRET|HOLDFAST_TOKEN|MALLOC_ARENA_MAX/);
    expect(stdout).not.to.include(token).and.not.to.include(server.clientSecret);
  });

  it("leaves the secrets out of the arguments of every process", async () => {
    const { stdout } = await run("--project app", ["sh", "-c", "tr '\\0' ' ' < /proc/$PPID/cmdline; ps -eo args"]);

    expect(stdout).to.include("holdfast.js run");
    expect(stdout).not.to.include("correct horse").and.not.to.include(server.clientSecret);
  });

  it("takes only the secrets that are named, by names with a prefix", async () => {
    const { stdout } = await run("--project app --only DB_PASSWORD,EMPTY --prefix APP_", printEnvironment);
    const missing = await run("--project app --only DB_PASSWORD,NONE", ["true"]);
    const mistyped = await run("--project app --env prodution", ["true"]);

    expect(stdout)
      .to.include("APP_DB_PASSWORD=correct horse\n")
      .and.to.include("APP_EMPTY=\n")
      .and.not.to.include("LINES");
    expect([missing.status, missing.stderr]).to.deep.equal([5, "holdfast: there is no secret NONE\n"]);
    expect([mistyped.status, mistyped.stderr]).to.deep.equal([
      5,
      "holdfast: there is no secret in the environment prodution\n",
    ]);
  });

  describe("runs nothing when the secrets cannot be variables:", () => {
    before(async () => {
      await project("names", { "db.password": "v1", "1ST": "v2", GOOD: "v3" });
      await project("nul", { NUL: "a\0b", GOOD: "v" });
      await project("environments", { TWICE: "1" }, "one");
      await server.secret({ key: "TWICE", environment: "two", project_id: projects.get("environments") });
    });

    const cases: [string, string, RegExp][] = [
      ["keys that are no names", "--project names", /no names of variables: 1ST, db\.password\n.*--only.*--prefix/s],
      [
        "keys that are none even with the prefix",
        "--project names --prefix X_",
        /no names of variables: db\.password\n/,
      ],
      ["values that hold NUL", "--project nul", /NUL, as do: NUL\n/],
      [
        "a key in several environments",
        "--project environments",
        /in several environments: TWICE; choose one with --env/,
      ],
    ];
    for (const [what, options, message] of cases) {
      it(what, async () => {
        const { status, stdout, stderr } = await run(options, ["echo", "ran"]);

        expect({ status, stdout }).to.deep.equal({ status: 2, stdout: "" });
        expect(stderr).to.match(message);
      });
    }
  });

  it("ends as the command does: by its status, by 128 and the signal that ended it, by what a shell says of none", async () => {
    writeFileSync(join(cli().home, "closed"), "");
    chmodSync(join(cli().home, "closed"), 0o600);
    const commands = [
      ["sh", "-c", "exit 42"],
      ["true"],
      ["sh", "-c", "kill -KILL $$"],
      ["sh", "-c", "kill -TERM $$"],
      ["no-such-command"],
      ["./closed"],
    ];

    const ends = await Promise.all(commands.map((command) => run("--project app", command)));

    expect(ends.map(({ status }) => status)).to.deep.equal([42, 0, 137, 143, 127, 126]);
    expect(ends[4]?.stderr).to.match(/^holdfast: cannot run no-such-command: .*ENOENT\n$/);
  });

  it("says when the secrets are too large for an environment", async () => {
    await project("large", { LARGE: "x".repeat(65_536) });

    const { status, stderr } = await run(`--project large --prefix ${"P".repeat(70_000)}`, ["true"]);

    expect(status).to.equal(126);
    expect(stderr).to.equal("holdfast: the secrets and arguments are larger than an environment may be\n");
  });

  it("leaves standard input, output and error to the command, and its arguments as they are", async () => {
    const command = ["sh", "-c", 'cat; echo "$0" "$@"; echo err >&2', "--only", "a b", "--", "--help"];

    const end = await run("--project app", command, { input: "in\n" });

    expect(end).to.deep.equal({ status: 0, stdout: "in\n--only a b -- --help\n", stderr: "err\n" });
  });

  const trapping = `
    for signal in INT HUP QUIT USR1 USR2 WINCH; do trap "echo got $signal" $signal; done
    trap "echo got TERM; exit 7" TERM
    echo ready; while :; do sleep 0.05; done`;

  it("passes signals on, and outlives what the command outlives", async () => {
    const { child, written, ended } = cli().start(["run", "--project", "app", "--", "sh", "-c", trapping]);
    await until(() => written.stdout.includes("ready"));

    for (const signal of ["INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "TERM"]) {
      child.kill(`SIG${signal}` as NodeJS.Signals);
      await until(() => written.stdout.includes(`got ${signal}\n`));
    }

    expect((await ended).status).to.equal(7);
  });

  it("passes signals on through an older Node, which hands over to the one that came with the package", async function () {
    const older = olderNode();
    if (older === undefined) {
      console.log("      (there is no older Node on this machine)");
      this.skip();
    }
    const { child, written, ended } = cli().start(["run", "--project", "app", "--", "sh", "-c", trapping], {
      node: older,
    });
    await until(() => written.stdout.includes("ready"));

    for (const signal of ["INT", "HUP", "QUIT", "USR1", "USR2", "TERM"]) {
      child.kill(`SIG${signal}` as NodeJS.Signals);
      await until(() => written.stdout.includes(`got ${signal}\n`));
    }

    expect((await ended).status).to.equal(7);
  });

  it("waits when the limit of requests is reached, says so, and reads few values at a time", async () => {
    await project(
      "many",
      Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`KEY_${index}`, `value ${index}`])),
    );
    const reading = { now: 0, most: 0, refused: 0 };
    const front = await startFront({
      target: server.url,
      intercept: ({ url }, response) => {
        if (!url?.endsWith("/GetSecret")) return false;
        reading.now += 1;
        reading.most = Math.max(reading.most, reading.now);
        response.once("close", () => (reading.now -= 1));
        if (reading.refused === 3) return false;
        reading.refused += 1;
        return answerLimited(response, 1);
      },
    });

    const { status, stdout, stderr } = await run("--project many", printEnvironment, {
      env: { HOLDFAST_URL: front.url },
    });

    await front.close();
    expect(status).to.equal(0);
    expect(stdout.match(/^KEY_\d+=value \d+$/gm)).to.have.length(20);
    expect(stderr).to.include("holdfast: the limit of requests is reached; going on in 1 s\n");
    expect(reading.refused).to.equal(3);
    expect(reading.most).to.be.within(2, 4);
  });
});

/** A Node of this machine that cannot run the program itself; undefined where there is none. */
function olderNode(): string | undefined {
  return ["/usr/bin/node", "/usr/local/bin/node"].find((path) => {
    try {
      const [major = 0] = execFileSync(path, ["-p", "process.versions.node"], { encoding: "utf8" })
        .split(".")
        .map(Number);
      return major < 24;
    } catch {
      return false;
    }
  });
}
