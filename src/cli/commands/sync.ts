import { type Command, Option } from "commander";
import type { ForceOptions, SyncStatusOptions } from "../actions/sync.ts";
import { environmentOption, examples, jsonOption, projectOption } from "./options.ts";

/** `holdfast sync …`: how far the places are that secrets are written to. */
export function declareSyncCommands(program: Command): void {
  const actions = () => import("../actions/sync.ts");
  const sync = program.command("sync").description("see to it that secrets are where they are linked to");
  const onSecret = (name: string, description: string): Command =>
    sync.command(`${name} <key>`).description(description).addOption(projectOption()).addOption(environmentOption());

  onSecret("status", "show how far the targets of a secret are")
    .addOption(new Option("--watch", "keep looking until each is synced or has failed, or Ctrl-C").conflicts("json"))
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast sync status DB_PASSWORD", "holdfast sync status DB_PASSWORD --watch"))
    .action(async (key: string, options: SyncStatusOptions) => (await actions()).status(key, options));

  onSecret("force", "write a secret to its targets anew, soon")
    .option("--environment <environment>", "to targets of this environment alone")
    .addOption(new Option("--wait", "keep looking until each is synced or has failed, or Ctrl-C").conflicts("json"))
    .addOption(jsonOption())
    .addHelpText(
      "after",
      examples("holdfast sync force DB_PASSWORD --wait", "holdfast sync force DB_PASSWORD --environment production"),
    )
    .action(async (key: string, options: ForceOptions) => (await actions()).force(key, options));
}
