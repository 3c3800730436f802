import type { Command } from "commander";
import type { ActivateOptions, FailbackOptions } from "../actions/failover.ts";
import { examples, jsonOption, yesOption } from "./options.ts";

/** `holdfast failover …`: which gateway serves an environment. */
export function declareFailoverCommands(program: Command): void {
  const actions = () => import("../actions/failover.ts");
  const failover = program
    .command("failover")
    .description("decide which gateway serves an environment; nothing fails over by itself");
  const withConsent = (command: Command): Command =>
    command.addOption(jsonOption()).addOption(yesOption()).option("--reason <text>", "why, for the audit log");

  withConsent(failover.command("activate <environment>"))
    .description("let a DR gateway serve an environment whose primary has failed, after showing what would happen")
    .option("--gateway <name-or-id>", "which one; the healthy standby that was heard of last unless given")
    .addHelpText(
      "after",
      examples(
        'holdfast failover activate production --reason "the primary site is down"',
        "holdfast failover activate production --gateway gw-dr-2 --yes",
      ),
    )
    .action(async (environment: string, options: ActivateOptions) => (await actions()).activate(environment, options));

  withConsent(failover.command("failback <environment>"))
    .description("return an environment to its primary, once that is back, after showing what would happen")
    .addHelpText("after", examples('holdfast failover failback production --reason "the primary site is back"'))
    .action(async (environment: string, options: FailbackOptions) => (await actions()).failback(environment, options));
}
