import type { Command } from "commander";
import type { VerifyOptions } from "../actions/host.ts";
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
    .command("verify-audit <file>")
    .description("check an exported audit log; status 0 when it is as it was written, else 1")
    .addOption(jsonOption())
    .option("--checkpoint <file>", "a saved answer of /api/v1/audit-logs/verify, up to which nothing may be missing")
    .addHelpText("after", examples("holdfast admin verify-audit audit.ndjson --checkpoint verified.json"))
    .action(async (file: string, options: VerifyOptions) => (await actions()).verifyAudit(file, options));

  admin
    .command("migrate")
    .description("bring the database's schema up to date, as the start of a server does")
    .addHelpText("after", examples("holdfast admin migrate"))
    .action(async () => (await actions()).migrate());
}
