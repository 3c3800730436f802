import type { Command } from "commander";
import type { EnrollOptions, LoginOptions, PasswordOptions } from "../actions/login.ts";
import type { WhoAmIOptions } from "../actions/whoami.ts";
import { examples, jsonOption, projectOption } from "./options.ts";

/** The commands about who one is: login, enroll, password, logout, whoami. */
export function declareLoginCommands(program: Command): void {
  const actions = () => import("../actions/login.ts");

  program
    .command("login")
    .description("log in and keep a token in the credentials file")
    .option("--url <url>", "the server; HOLDFAST_URL unless given")
    .option("--username <name>", "log in as a person; asks for the password")
    .option("--password-stdin", "read the password from standard input")
    .option(
      "--client-id <id>",
      "log in as a machine identity; asks for the client secret unless HOLDFAST_CLIENT_SECRET is set",
    )
    .option("--client-secret-stdin", "read the client secret from standard input")
    .addHelpText(
      "after",
      examples(
        "holdfast login --url https://holdfast.example.org --username alice",
        "holdfast login --client-id $ID --client-secret-stdin < secret",
      ),
    )
    .action(async (options: LoginOptions) => (await actions()).login(options));

  program
    .command("enroll")
    .description("set the first password of a user, or a new one after a reset")
    .requiredOption("--username <name>", "whose password")
    .option("--url <url>", "the server; HOLDFAST_URL unless given")
    .option("--stdin", "read the enrollment token and the password from standard input, a line each")
    .addHelpText("after", examples("holdfast enroll --url https://holdfast.example.org --username alice"))
    .action(async (options: EnrollOptions) => (await actions()).enroll(options));

  program
    .command("password")
    .description("change the password; other logins of the user end")
    .option("--url <url>", "the server; HOLDFAST_URL unless given")
    .option("--username <name>", "whose password; that of the user who is logged in unless given")
    .option("--stdin", "read the present and the new password from standard input, a line each")
    .addHelpText("after", examples("holdfast password"))
    .action(async (options: PasswordOptions) => (await actions()).changePassword(options));

  program
    .command("logout")
    .description("end the token of the credentials file, and remove the file")
    .addHelpText("after", examples("holdfast logout"))
    .action(async () => (await actions()).logout());

  program
    .command("whoami")
    .description(
      "say who is logged in; with --can, whether that identity holds permissions (status 0 when it holds all, else 4)",
    )
    .option("--can <permission...>", "permissions that are asked about")
    .addOption(projectOption())
    .addOption(jsonOption())
    .addHelpText(
      "after",
      examples("holdfast whoami", "holdfast whoami --can secret:read secret:write --project payments && ./deploy"),
    )
    .action(async (options: WhoAmIOptions) => {
      const { whoami } = await import("../actions/whoami.ts");
      await whoami(options);
    });
}
