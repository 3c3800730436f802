import type { Command } from "commander";
import type { UserListOptions, UserOptions } from "../actions/user.ts";
import { each, examples, type Json, jsonOption, wholeNumber, words, yesOption } from "./options.ts";

/** `holdfast admin user …`: people, by their username or id. */
export function declareUserCommands(admin: Command): void {
  const user = admin.command("user").description("keep people and their roles");
  const actions = () => import("../actions/user.ts");
  const onUser = (name: string, description: string) =>
    user
      .command(`${name} <username>`)
      .description(description)
      .addHelpText("after", examples(`holdfast admin user ${name} alice`));

  user
    .command("list")
    .description("list the people of the organization")
    .addOption(jsonOption())
    .option("--search <text>", "usernames, display names and emails that contain this text")
    .option("--status <status>", "pending, active or disabled")
    .addHelpText("after", examples("holdfast admin user list --status pending"))
    .action(async (options: UserListOptions) => (await actions()).list(options));

  withFields(user.command("create <username>"))
    .description("make a user, and print the token to enroll with, this once")
    .addHelpText("after", examples("holdfast admin user create alice --role editor --project-role payments=admin"))
    .action(async (username: string, options: UserOptions) => (await actions()).create(username, options));

  onUser("get", "show a user")
    .addOption(jsonOption())
    .action(async (username: string, options: Json) => (await actions()).get(username, options));

  withFields(user.command("update <username>"))
    .description("change what is mentioned; roles replace those of the same kind, and an empty text clears")
    .addHelpText("after", examples("holdfast admin user update alice --role editor,auditor --email ''"))
    .action(async (username: string, options: UserOptions) => (await actions()).update(username, options));

  onUser("disable", "keep a user out: every login and token ends at once")
    .addOption(jsonOption())
    .action(async (username: string, options: Json) => (await actions()).disable(username, options));

  onUser("enable", "let a disabled user in again")
    .addOption(jsonOption())
    .action(async (username: string, options: Json) => (await actions()).enable(username, options));

  onUser("reset-enrollment", "print a new token to enroll with, for a user who has lost the password")
    .addOption(jsonOption())
    .action(async (username: string, options: Json) => (await actions()).resetEnrollment(username, options));

  onUser("rm", "remove a user with all tokens")
    .addOption(yesOption())
    .action(async (username: string, options: UserOptions) => (await actions()).remove(username, options));
}

const withFields = (command: Command): Command =>
  command
    .addOption(jsonOption())
    .option("--email <address>", "for people; nothing is sent to it")
    .option("--display-name <name>", "for people")
    .option("--role <role>", "a role at the organization; may be given more than once", words)
    .option("--project-role <project=role>", "a role at a project; may be given more than once", each)
    .option("--rate-limit <number>", "requests a minute, instead of the installation's limit", wholeNumber);
