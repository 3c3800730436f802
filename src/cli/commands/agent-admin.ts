import { type Command, Option } from "commander";
import type { AgentListOptions, EnrollmentTokenOptions, RemoveAgentOptions } from "../actions/agent-admin.ts";
import { examples, type Json, jsonOption, wholeNumber, yesOption } from "./options.ts";

/** `holdfast admin agent …`: agents, by the name of their host or their id, and the tokens that they enroll with. */
export function declareAgentAdminCommands(admin: Command): void {
  const agent = admin.command("agent").description("keep the agents on hosts, and the tokens that they enroll with");
  const actions = () => import("../actions/agent-admin.ts");
  const onAgent = (name: string, description: string) =>
    agent
      .command(`${name} <host-or-id>`)
      .description(description)
      .addHelpText("after", examples(`holdfast admin agent ${name} web1.example.com`));

  agent
    .command("list")
    .description("list the agents of the organization, those that are offline too")
    .addOption(jsonOption())
    .addOption(new Option("--status <status>", "those with this status").choices(["online", "offline", "disabled"]))
    .option("--search <text>", "hosts whose name contains this text")
    .addHelpText("after", examples("holdfast admin agent list --status offline"))
    .action(async (options: AgentListOptions) => (await actions()).list(options));

  onAgent("show", "show an agent, and what it could not read")
    .addOption(jsonOption())
    .action(async (host: string, options: Json) => (await actions()).show(host, options));

  onAgent("disable", "refuse everything to an agent: it stops")
    .addOption(jsonOption())
    .action(async (host: string, options: Json) => (await actions()).disable(host, options));

  onAgent("enable", "let a disabled agent work again")
    .addOption(jsonOption())
    .action(async (host: string, options: Json) => (await actions()).enable(host, options));

  onAgent("rm", "remove an agent, its identity and the records of what it found")
    .addOption(yesOption())
    .action(async (host: string, options: RemoveAgentOptions) => (await actions()).remove(host, options));

  const token = agent.command("token").description("keep the tokens that agents enroll with");

  token
    .command("create")
    .description("make a token by which one agent enrolls once, and print it, this once")
    .addOption(jsonOption())
    .option("--hostname <host>", "the one host that may use it; any host unless given")
    .option("--ttl-hours <number>", "its life, 24 at most and unless given", wholeNumber)
    .addHelpText("after", examples("holdfast admin agent token create --hostname web1.example.com --ttl-hours 1"))
    .action(async (options: EnrollmentTokenOptions) => (await actions()).createToken(options));

  token
    .command("list")
    .description("list the tokens that can still be used, newest first")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast admin agent token list"))
    .action(async (options: Json) => (await actions()).listTokens(options));

  token
    .command("revoke <id-or-prefix>")
    .description("end a token before it is used")
    .addHelpText("after", examples("holdfast admin agent token revoke 0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"))
    .action(async (reference: string) => (await actions()).revokeToken(reference));
}
