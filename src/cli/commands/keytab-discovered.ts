import { type Command, Option } from "commander";
import type { DiscoveredListOptions, ImportDiscoveredOptions, ReasonOptions } from "../actions/keytab-discovered.ts";
import { examples, instant, type Json, jsonOption } from "./options.ts";

const findings = ["world_readable", "group_readable", "wrong_owner", "shared_key", "old_kvnos", "kvno_behind"];

/** `holdfast keytab discovered …`: files on hosts, by the id of their record. */
export function declareDiscoveredCommands(keytab: Command): void {
  const discovered = keytab.command("discovered").description("see what agents found on hosts, and take it over");
  const actions = () => import("../actions/keytab-discovered.ts");

  discovered
    .command("list")
    .description("list the files that agents found, the last seen first")
    .addOption(jsonOption())
    .addOption(
      new Option("--state <state>", "those in this state").choices(["discovered", "imported", "ignored", "stale"]),
    )
    .option("--agent <id>", "those of this agent")
    .option("--realm <realm>", "those of this realm, whatever its case")
    .option("--principal <text>", "those whose principal contains this text, whatever its case")
    .addOption(new Option("--finding <finding>", "those with this finding").choices(findings))
    .option("--drifted", "those that differ from their managed keytab")
    .addHelpText("after", examples("holdfast keytab discovered list --finding world_readable"))
    .action(async (options: DiscoveredListOptions) => (await actions()).list(options));

  discovered
    .command("import <id>")
    .description("have the file fetched from its host and kept by the server; takes up to half a minute")
    .addOption(jsonOption())
    .addOption(new Option("-p, --project <project>", "name or id of the project that the keytab will belong to"))
    .option("--name <name>", "free text; the principal unless given")
    .option("--expires-at <time>", "when it counts as expired, as in 2027-01-31T12:00:00Z", instant)
    .addHelpText("after", examples("holdfast keytab discovered import 0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"))
    .action(async (id: string, options: ImportDiscoveredOptions) => (await actions()).importDiscovered(id, options));

  discovered
    .command("resync <id>")
    .description("have a file that differs from its keytab fetched and kept as the keytab's next version")
    .addOption(jsonOption())
    .option("--reason <text>", "goes into the history and the audit log")
    .addHelpText("after", examples("holdfast keytab discovered resync 0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"))
    .action(async (id: string, options: ReasonOptions) => (await actions()).resync(id, options));

  discovered
    .command("ignore <id>")
    .description("say that a file needs no management")
    .addOption(jsonOption())
    .option("--reason <text>", "goes into the record and the audit log")
    .addHelpText(
      "after",
      examples('holdfast keytab discovered ignore 0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55 --reason "test host"'),
    )
    .action(async (id: string, options: ReasonOptions) => (await actions()).ignore(id, options));

  discovered
    .command("unignore <id>")
    .description("take that back")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast keytab discovered unignore 0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"))
    .action(async (id: string, options: Json) => (await actions()).unignore(id, options));
}
