import type { Command } from "commander";
import { examples, type Json, jsonOption } from "./options.ts";

/** `holdfast admin …` on the server's own host: with the settings SERVICE_… and its database, without its API. */
export function declareHostCommands(admin: Command): void {
  const actions = () => import("../actions/host.ts");

  admin
    .command("rewrap")
    .description("wrap every key by the present master key, after a change of it (see docs/operations.md)")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast admin rewrap"))
    .action(async (options: Json) => (await actions()).rewrap(options));

  admin
    .command("migrate")
    .description("bring the database's schema up to date, as the start of a server does")
    .addHelpText("after", examples("holdfast admin migrate"))
    .action(async () => (await actions()).migrate());
}
