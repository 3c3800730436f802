import { type Command, Option } from "commander";
import { destinationNames } from "../../targets/destinations/destination-names.ts";
import type { CreateOptions, DeleteOptions, LinkOptions } from "../actions/link.ts";
import { environmentOption, examples, jsonOption, projectOption, yesOption } from "./options.ts";

/** `holdfast link …`: where a secret is kept up to date outside. */
export function declareLinkCommands(program: Command): void {
  const actions = () => import("../actions/link.ts");
  const link = program.command("link").description("tie secrets to places outside, which are kept up to date");
  const onSecret = (usage: string, description: string): Command =>
    link.command(usage).description(description).addOption(projectOption()).addOption(environmentOption());

  onSecret("create <key>", "tie a secret to a place, where its value is written soon after")
    .addOption(new Option("--integration <kind>", "the kind of place").choices(destinationNames).makeOptionMandatory())
    .requiredOption("-f, --file <file>", "config and credentials in JSON, as the API takes them; - is standard input")
    .option("--name <name>", "what people call it")
    .option("--environment <environment>", "its own; that of the secret unless given")
    .option("--no-sync", "write nothing there for now")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      examples(
        "holdfast link create DB_PASSWORD --integration webhook --file hook.json",
        `echo '{"config": {"url": "https://hooks.example.com"}}' | holdfast link create KEY --integration webhook --file -`,
      ),
    )
    .action(async (key: string, options: CreateOptions) => (await actions()).create(key, options));

  onSecret("list <key>", "list the links of a secret")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast link list DB_PASSWORD"))
    .action(async (key: string, options: LinkOptions) => (await actions()).list(key, options));

  onSecret("rm <key> <name-or-id>", "remove a link of a secret; what was written stays there")
    .option("--purge", "delete what was written there first")
    .addOption(yesOption())
    .addHelpText("after", examples('holdfast link rm DB_PASSWORD "eu prod" --purge'))
    .action(async (key: string, name: string, options: DeleteOptions) => (await actions()).remove(key, name, options));
}
