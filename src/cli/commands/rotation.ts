import type { Command } from "commander";
import type { RotationStatusOptions } from "../actions/rotation.ts";
import { environmentOption, examples, jsonOption, projectOption } from "./options.ts";

/** `holdfast rotation …`: how secrets are rotated. */
export function declareRotationCommands(program: Command): void {
  const rotation = program.command("rotation").description("see how secrets are rotated");

  rotation
    .command("status [keys...]")
    .description("show how the rotation of secrets stands: those named, or those of the project that have a schedule")
    .addOption(projectOption())
    .addOption(environmentOption())
    .addOption(jsonOption())
    .addHelpText(
      "after",
      examples(
        "holdfast rotation status --project payments",
        "holdfast rotation status DB_PASSWORD",
        "holdfast rotation status DB_PASSWORD API_KEY",
      ),
    )
    .action(async (keys: string[], options: RotationStatusOptions) => {
      const { status } = await import("../actions/rotation.ts");
      await status(keys, options);
    });
}
