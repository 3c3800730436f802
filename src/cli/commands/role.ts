import type { Command } from "commander";
import type { RoleOptions } from "../actions/role.ts";
import { examples, type Json, jsonOption, words, yesOption } from "./options.ts";

/** `holdfast admin role …`: named sets of permissions. */
export function declareRoleCommands(admin: Command): void {
  const role = admin.command("role").description("keep roles, which are named sets of permissions");
  const actions = () => import("../actions/role.ts");

  role
    .command("list")
    .description("list the built-in roles, and those of the organization")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast admin role list"))
    .action(async (options: Json) => (await actions()).list(options));

  withFields(role.command("create <name>"))
    .description("make a role")
    .addHelpText("after", examples("holdfast admin role create deployer --permission secret:read,project:read"))
    .action(async (name: string, options: RoleOptions) => (await actions()).create(name, options));

  withFields(role.command("update <name>"))
    .description("change a role, for everybody who holds it, at once; permissions replace those that it has")
    .option("--name <name>", "the new name")
    .addHelpText("after", examples("holdfast admin role update deployer --permission secret:read"))
    .action(async (name: string, options: RoleOptions) => (await actions()).update(name, options));

  role
    .command("rm <name>")
    .description("remove a role that nobody holds")
    .addOption(yesOption())
    .addHelpText("after", examples("holdfast admin role rm deployer"))
    .action(async (name: string, options: RoleOptions) => (await actions()).remove(name, options));
}

const withFields = (command: Command): Command =>
  command
    .addOption(jsonOption())
    .option("--permission <permission>", "what it holds; may be given more than once", words)
    .option("--description <text>", "what it is for");
