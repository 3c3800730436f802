import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { CommandApplier } from "../../../src/gateway/drivers/command.ts";
import type { TargetError } from "../../../src/targets/target-error.ts";
import { eventually } from "../../harness/program.ts";
import { TestPermit } from "../../targets/drivers/assignment.ts";
import { assignmentOf } from "../assignment.ts";

describe("The driver of commands", () => {
  let folder: string;
  let permit: TestPermit;
  beforeEach(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-command-")));
    permit = new TestPermit();
  });
  afterEach(() => {
    permit.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const at = (name: string) => join(folder, name);
  const read = (name: string) => readFileSync(at(name), "utf8");

  /** A driver that allows one command, "rotate", which is this script; $1 is a folder to write to. */
  function driverOf(script: string, environment: Record<string, string> = {}): CommandApplier {
    writeFileSync(at("rotate"), `#!/bin/sh\n${script}\n`, { mode: 0o700 });
    return new CommandApplier(new Map([["rotate", { argv: [at("rotate"), folder], environment }]]));
  }

  const settings = { command: "rotate", parameters: { port: 5432 } };
  const assignment = assignmentOf({ driver: "command", settings });
  const apply = (driver: CommandApplier, fields: Parameters<typeof assignmentOf>[0] = {}) =>
    driver.apply(assignmentOf({ ...assignment, ...fields }), permit);
  const failure = (applying: Promise<unknown>) =>
    applying.then(
      () => expect.fail("it succeeded"),
      (error: unknown) => error as TargetError,
    );
  const isAlive = (pid: number) => {
    try {
      process.kill(pid, 0);
      // A zombie that nobody has waited for is dead too.
      return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
    } catch {
      return false;
    }
  };
  const gone = (pid: number) => eventually(`the end of process ${pid}`, () => (isAlive(pid) ? undefined : true));
  const pidIn = (name: string) =>
    eventually(`the process in ${name}`, () => (existsSync(at(name)) && Number(read(name))) || undefined);

  it("gives the command all that there is to know on standard input, and nothing else", async () => {
    const driver = driverOf('cat > "$1/input"; echo "$#" > "$1/arguments"; env > "$1/environment"', { REGION: "eu 1" });
    const before = { previousValue: "before", earlierCandidates: ["not confirmed"] };
    process.env["HOLDFAST_TEST_SECRET"] = "of the gateway itself";

    await apply(driver, { ...before, credentials: { admin: "root", keys: ["a", 1, true] } });
    delete process.env["HOLDFAST_TEST_SECRET"];

    expect(JSON.parse(read("input"))).to.deep.equal({
      action: "apply",
      task_id: assignment.taskId,
      attempt: 1,
      secret_id: assignment.secretId,
      key: "DB_PASSWORD",
      environment: "production",
      value: "the-candidate-value",
      previous_value: "before",
      earlier_candidates: ["not confirmed"],
      parameters: { port: 5432 },
      credentials: { admin: "root", keys: ["a", 1, true] },
    });
    expect(read("arguments")).to.equal("1\n");
    const names = read("environment")
      .trim()
      .split("\n")
      .map((line) => line.split("=")[0]);
    // The shell makes PWD and the like itself.
    expect(names.filter((name) => !["PWD", "SHLVL", "_", "OLDPWD"].includes(name ?? ""))).to.have.members([
      "PATH",
      "REGION",
    ]);
    expect(read("environment")).to.include("REGION=eu 1\n");
  });

  it("says which of the two is to be done, and that there was no value before", async () => {
    const driver = driverOf('cat > "$1/input"');

    await driver.verify(assignment, permit);

    expect(JSON.parse(read("input"))).to.include({ action: "verify", previous_value: null });
  });

  it("does without a command that reads nothing, however much there is to read", async () => {
    await apply(driverOf("exec 0<&-; exit 0"), { value: "v".repeat(65_536) });
  });

  const statuses: [number, boolean][] = [
    [1, false],
    [2, false],
    [64, true],
    [65, true],
    [69, false],
    [75, false],
    [77, true],
    [78, true],
  ];
  for (const [status, permanent] of statuses) {
    it(`takes status ${status} for a failure that ${permanent ? "is" : "is not"} permanent`, async () => {
      const error = await failure(apply(driverOf(`echo first >&2; echo "the reason " >&2; exit ${status}`)));

      const message = `the command ended with status ${status}: the reason`;
      // What it did before, nobody knows.
      expect(error).to.include({ code: "refused", permanent, unchanged: false, message });
    });
  }

  it("says how it ended when the command says nothing", async () => {
    expect(await failure(apply(driverOf("exit 4")))).to.include({ message: "the command ended with status 4" });
    expect(await failure(apply(driverOf("kill -9 $$")))).to.include({ message: "the command was ended by SIGKILL" });
  });

  it("runs no command that is not allowed", async () => {
    const driver = driverOf('touch "$1/ran"');

    for (const command of ["other", "../rotate", at("rotate"), "__proto__"]) {
      const error = await failure(apply(driver, { settings: { command, parameters: {} } }));
      expect(error).to.include({ code: "invalid", permanent: true, unchanged: true });
    }
    expect(existsSync(at("ran"))).to.equal(false);
  });

  it("says that a command is not there, or cannot be run, for good", async () => {
    const driver = driverOf("exit 0");
    rmSync(at("rotate"));
    const missing = await failure(apply(driver));
    writeFileSync(at("rotate"), "", { mode: 0o600 });
    const notExecutable = await failure(apply(driver));

    expect(missing).to.include({ permanent: true, unchanged: true, message: "the command cannot be started (ENOENT)" });
    expect(notExecutable).to.include({
      permanent: true,
      unchanged: true,
      message: "the command cannot be started (EACCES)",
    });
  });

  it("does not start a command when the permit has ended", async () => {
    const driver = driverOf('touch "$1/ran"');
    permit.end();

    await failure(apply(driver));

    expect(existsSync(at("ran"))).to.equal(false);
  });

  it("ends the command and all that it has started when the permit ends", async () => {
    const driver = driverOf('echo $$ > "$1/leader"; sleep 600 & echo $! > "$1/child"; wait');
    const applying = failure(apply(driver));
    const [leader, child] = [await pidIn("leader"), await pidIn("child")];

    permit.end();

    expect((await applying).message).to.equal("the command was ended by SIGTERM");
    await Promise.all([gone(leader), gone(child)]);
  });

  it("kills a command that will not end, and what it has started", async () => {
    const driver = driverOf(
      `trap "" TERM; echo $$ > "$1/leader"; sh -c 'trap "" TERM; echo $$ > "$0/child"; while :; do sleep 1; done' "$1" & while :; do sleep 1; done`,
    );
    const applying = failure(apply(driver));
    const [leader, child] = [await pidIn("leader"), await pidIn("child")];

    permit.end();

    expect((await applying).message).to.equal("the command was ended by SIGKILL");
    await Promise.all([gone(leader), gone(child)]);
  });

  it("kills what a command that has ended left behind", async () => {
    const driver = driverOf('sleep 600 & echo $! > "$1/child"; exit 0');

    await apply(driver);

    await gone(await pidIn("child"));
  });

  it("does not wait for a process that has left, and keeps its output open", async () => {
    const driver = driverOf(
      'setsid sh -c \'echo $$ > "$0/child"; exec sleep 600\' "$1" & while ! test -s "$1/child"; do :; done; echo why >&2; exit 1',
    );

    const error = await failure(apply(driver));

    expect(error.message).to.equal("the command ended with status 1: why");
    process.kill(await pidIn("child"), "SIGKILL");
  });

  it("takes the last line of any amount of output", async () => {
    const driver = driverOf(
      "yes noise | head -c 20000000 >&2; yes noise | head -c 20000000; echo >&2; echo the end >&2; exit 1",
    );

    expect((await failure(apply(driver))).message).to.equal("the command ended with status 1: the end");
  });

  it("takes no line of which it does not know the beginning", async () => {
    const driver = driverOf("head -c 200000 /dev/zero | tr '\\0' x >&2; exit 1");

    expect((await failure(apply(driver))).message).to.equal("the command ended with status 1");
  });

  it("keeps no process that has ended", async () => {
    const driver = driverOf('echo $$ > "$1/leader"; exit 3');
    await failure(apply(driver));

    expect(existsSync(`/proc/${await pidIn("leader")}`)).to.equal(false);
  });
});
