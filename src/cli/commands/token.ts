import { type Command, Option } from "commander";
import type { CreateTokenOptions } from "../actions/token.ts";
import { each, examples, type Json, jsonOption, wholeNumber, words } from "./options.ts";

/** `holdfast token …`: API tokens of whoever is logged in. */
export function declareTokenCommands(program: Command): void {
  const token = program
    .command("token")
    .description("keep API tokens, which may do less than their owner and last longer than a login");
  const actions = () => import("../actions/token.ts");

  token
    .command("create <name>")
    .description("make a token and print it, this once; all that its owner may and 90 days unless restricted")
    .addOption(jsonOption())
    .option("--permission <permission>", "what it may do; may be given more than once", words)
    .option("--project <project>", "name or id of a project that it is for; may be given more than once", each)
    .option("--expires-in-days <number>", "its life", wholeNumber)
    .addOption(new Option("--never-expires", "it does not end by itself").conflicts("expiresInDays"))
    .option("--allowed-ip <network>", "address or network that it may be used from; may be given more than once", words)
    .addHelpText(
      "after",
      examples("holdfast token create ci --permission secret:read --project payments --expires-in-days 30 | pbcopy"),
    )
    .action(async (name: string, options: CreateTokenOptions) => (await actions()).create(name, options));

  token
    .command("list")
    .description("list your tokens, newest first")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast token list"))
    .action(async (options: Json) => (await actions()).list(options));

  token
    .command("revoke <id-or-prefix>")
    .description("end a token at once")
    .addHelpText("after", examples("holdfast token revoke hf_3kq9"))
    .action(async (reference: string) => (await actions()).revoke(reference));
}
