import type { Command } from "commander";
import type { ClientSecretOptions, IdentityListOptions, IdentityOptions } from "../actions/identity.ts";
import { each, examples, type Json, jsonOption, wholeNumber, words, yesOption } from "./options.ts";

/** `holdfast admin identity …`: machine identities, by their name or id, and their client secrets. */
export function declareIdentityCommands(admin: Command): void {
  const identity = admin.command("identity").description("keep the identities of programs, and their client secrets");
  const actions = () => import("../actions/identity.ts");
  const onIdentity = (name: string, description: string) =>
    identity
      .command(`${name} <name>`)
      .description(description)
      .addHelpText("after", examples(`holdfast admin identity ${name} ci`));

  identity
    .command("list")
    .description("list the machine identities of the organization")
    .addOption(jsonOption())
    .option("--search <text>", "names that contain this text")
    .addHelpText("after", examples("holdfast admin identity list --search ci"))
    .action(async (options: IdentityListOptions) => (await actions()).list(options));

  identity
    .command("create <name>")
    .description("make a machine identity")
    .addOption(jsonOption())
    .option("--role <role>", "a role at the organization; may be given more than once", words)
    .option("--project-role <project=role>", "a role at a project; may be given more than once", each)
    .option("--allowed-ip <network>", "address or network that it may call from; may be given more than once", words)
    .option("--token-ttl-seconds <number>", "life of its access tokens", wholeNumber)
    .option("--rate-limit <number>", "requests a minute, instead of the installation's limit", wholeNumber)
    .addHelpText(
      "after",
      examples("holdfast admin identity create ci --project-role payments=viewer --allowed-ip 10.0.0.0/8"),
    )
    .action(async (name: string, options: IdentityOptions) => (await actions()).create(name, options));

  onIdentity("get", "show a machine identity")
    .addOption(jsonOption())
    .action(async (name: string, options: Json) => (await actions()).get(name, options));

  onIdentity("disable", "keep a machine identity out: its tokens end at once")
    .addOption(jsonOption())
    .action(async (name: string, options: Json) => (await actions()).disable(name, options));

  onIdentity("enable", "let a disabled machine identity in again")
    .addOption(jsonOption())
    .action(async (name: string, options: Json) => (await actions()).enable(name, options));

  onIdentity("rm", "remove a machine identity; its tokens end with it")
    .addOption(yesOption())
    .action(async (name: string, options: IdentityOptions) => (await actions()).remove(name, options));

  const secret = identity.command("secret").description("keep the client secrets of a machine identity");

  secret
    .command("create <name>")
    .description("make a client secret and print it, this once")
    .addOption(jsonOption())
    .option("--description <text>", "what it is for")
    .option("--ttl-hours <number>", "its life; without it, it does not end by itself", wholeNumber)
    .option("--max-uses <number>", "how often it can be exchanged for a token", wholeNumber)
    .addHelpText("after", examples("holdfast admin identity secret create ci --ttl-hours 720"))
    .action(async (name: string, options: ClientSecretOptions) => (await actions()).createSecret(name, options));

  secret
    .command("list <name>")
    .description("list the client secrets of a machine identity")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast admin identity secret list ci"))
    .action(async (name: string, options: Json) => (await actions()).listSecrets(name, options));

  secret
    .command("revoke <name> <id-or-prefix>")
    .description("end a client secret at once")
    .addHelpText("after", examples("holdfast admin identity secret revoke ci hfcs_9d1c"))
    .action(async (name: string, reference: string) => (await actions()).revokeSecret(name, reference));
}
