import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Command } from "commander";
import { createProgram } from "../../src/cli/program.ts";
import { useHoldfast } from "./holdfast.ts";

/** Every command below `command` that does something, by what one types. */
function leavesOf(command: Command, route: string): [string, Command][] {
  if (command.commands.length === 0) return [[route, command]];
  return command.commands.flatMap((each) => leavesOf(each, `${route} ${each.name()}`));
}

describe("the program holdfast", function () {
  // Every command is a process of its own.
  this.timeout(60_000);
  const cli = useHoldfast(() => ({}));

  describe("helps with", () => {
    for (const [route, command] of leavesOf(createProgram(), "holdfast")) {
      it(`${route}: what it does, and an example`, () => {
        let help = "";
        command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();

        expect(help).to.include(`Usage: ${route}`);
        expect(command.description()).to.match(/^\S.{10}/);
        if (route !== "holdfast serve") expect(help).to.match(new RegExp(`\nExamples:\n.*  \\$ .*${route}\\b`, "s"));
      });
    }
  });

  it("loads neither the server nor the client of its API to help", async () => {
    const listing = join(cli().home, "listing.mjs");
    writeFileSync(
      listing,
      `import { registerHooks } from "node:module";
       registerHooks({ load(url, context, next) { console.error(url); return next(url, context); } });`,
    );

    const { status, stdout, stderr } = await cli().run("--help", { env: { NODE_OPTIONS: `--import=${listing}` } });

    expect(status).to.equal(0);
    expect(stdout).to.include("Usage: holdfast");
    expect(stderr).to.include("/src/cli/program.ts").and.to.include("/commander/");
    expect(stderr).not.to.match(/src\/(server|client|engines)|@connectrpc|@bufbuild|@inquirer|cli-table3/);
  });

  describe("completes", () => {
    const shells: [string, string[]][] = [
      ["bash", ["-n"]],
      ["zsh", ["-n"]],
      ["fish", ["--no-execute"]],
    ];
    for (const [shell, check] of shells) {
      it(`with a script that ${shell} can read`, async function () {
        if (spawnSync(shell, ["--version"]).error !== undefined) {
          console.log(`      (${shell} is not installed, so its script cannot be read by it)`);
          this.skip();
        }
        const file = join(cli().home, `completion.${shell}`);
        writeFileSync(file, await cli().print(`completion ${shell}`));

        const { status, stderr } = spawnSync(shell, [...check, file], { encoding: "utf8" });

        expect({ status, stderr }).to.deep.equal({ status: 0, stderr: "" });
      });
    }

    const typed: [string, string[]][] = [
      ["holdfast sec", ["secret"]],
      ["holdfast secret r", ["rollback", "rotate", "rm", "restore"]],
      ["holdfast rotation status --pro", ["--project"]],
      ["holdfast sync f", ["force"]],
      ["holdfast secret get KEY --pro", ["--project"]],
      ["holdfast admin identity secret ", ["create", "list", "revoke", "-h", "--help"]],
      ["holdfast keytab discovered i", ["import", "ignore"]],
      ["holdfast agent scan --no-", ["--no-default-places"]],
      ["holdfast gateway tasks gw-eu-1 --st", ["--status"]],
      ["holdfast failover ", ["activate", "failback", "-h", "--help"]],
      ["holdfast completion z", ["zsh"]],
      ["holdfast secret set KEY --file ", []],
      ["holdfast run -- secret ", []],
      ["holdfast secret set KEY --val", []],
    ];
    for (const [line, expected] of typed) {
      it(`${line}… in bash`, async () => {
        const script = await cli().print("completion bash");
        const words = line.split(" ");
        const run = `${script}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}
          _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;

        const { stdout } = spawnSync("bash", ["-c", run], { encoding: "utf8" });

        expect(stdout.trim()).to.equal(expected.join("\n"));
      });
    }

    it("with every command and option of the program in the scripts of all shells", async () => {
      const names = leavesOf(createProgram(), "").flatMap(([route, { options }]) => [
        route.split(" ").at(-1) ?? "",
        ...options.filter(({ hidden }) => !hidden).map(({ long }) => long?.slice(2) ?? ""),
      ]);

      for (const shell of ["bash", "zsh", "fish"]) {
        const script = await cli().print(`completion ${shell}`);
        expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(script))).to.deep.equal([]);
      }
    });
  });
});
