import type { Command } from "commander";
import type { RunOptions } from "../actions/run.ts";
import { environmentOption, examples, projectOption, words } from "./options.ts";

/** `holdfast run`: what stands after `--` belongs to the command that is run. */
export function declareRunCommand(program: Command): void {
  program
    .command("run")
    .description("run a command with the secrets of a project as its environment variables")
    .argument("<command...>", "the command and its arguments")
    .usage("[options] -- <command...>")
    .passThroughOptions()
    .addOption(projectOption())
    .addOption(environmentOption())
    .option("--only <keys>", "only these secrets, separated by commas", words)
    .option("--prefix <text>", "put this before each key to make the name of the variable")
    .addHelpText(
      "after",
      examples(
        "holdfast run --project payments --env production -- ./server",
        "holdfast run --only PGPASSWORD -- psql -h db",
      ),
    )
    .action(async (command: string[], options: RunOptions) => {
      const { run } = await import("../actions/run.ts");
      await run(command, options);
    });
}
