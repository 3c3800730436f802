import { type Command, Option } from "commander";
import type {
  CopyOptions,
  GetOptions,
  ListOptions,
  RestoreOptions,
  RollbackOptions,
  RotateOptions,
  SecretOptions,
  SetOptions,
} from "../actions/secret.ts";
import { each, environmentOption, examples, jsonOption, projectOption, wholeNumber, yesOption } from "./options.ts";

/** `holdfast secret …`: secrets by their key, or by their id. */
export function declareSecretCommands(program: Command): void {
  const secret = program.command("secret").description("read and write secrets");
  const actions = () => import("../actions/secret.ts");

  onSecret(secret, "get", "print the value of a secret, and nothing else")
    .addOption(jsonOption())
    .option("--version <number>", "a version other than the current one", wholeNumber)
    .addHelpText(
      "after",
      examples(
        "holdfast secret get DB_PASSWORD --env production",
        "PGPASSWORD=$(holdfast secret get DB_PASSWORD) psql -h db",
      ),
    )
    .action(async (key: string, options: GetOptions) => (await actions()).get(key, options));

  onSecret(secret, "set", "create a secret, or give it a new value, read from standard input, a prompt or a file")
    // What stands there after the key is refused, with the reason, and without being shown.
    .allowExcessArguments()
    .addOption(new Option("--value [value]").hideHelp())
    .addOption(jsonOption())
    .option("-f, --file <path>", "read the value from a file")
    .option("--description <text>", "what it is for")
    .option("--tag <tag>", "a label; may be given more than once", each)
    .option("--ttl-hours <number>", "life of a new secret", wholeNumber)
    .option("--reason <text>", "goes into the history and the audit log")
    .addHelpText(
      "after",
      examples(
        "holdfast secret set DB_PASSWORD --env production",
        "openssl rand -hex 32 | tr -d '\\n' | holdfast secret set API_KEY",
        "holdfast secret set TLS_KEY --file key.pem",
      ),
    )
    .action(async (key: string, options: SetOptions, { args }: Command) =>
      (await actions()).set(key, args.slice(1), options),
    );

  secret
    .command("list")
    .description("list the secrets of a project, without their values")
    .addOption(projectOption())
    .addOption(environmentOption())
    .addOption(jsonOption())
    .option("--search <text>", "keys that contain this text, whatever its case")
    .addHelpText("after", examples("holdfast secret list --project payments --search password"))
    .action(async (options: ListOptions) => (await actions()).list(options));

  onSecret(secret, "history", "list the versions of a secret")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast secret history DB_PASSWORD"))
    .action(async (key: string, options: SecretOptions) => (await actions()).history(key, options));

  onSecret(secret, "rollback", "make a new version out of the value of an earlier one")
    .addOption(jsonOption())
    .requiredOption("--to <version>", "the version to go back to", wholeNumber)
    .option("--reason <text>", "goes into the history and the audit log")
    .addHelpText("after", examples('holdfast secret rollback DB_PASSWORD --to 3 --reason "bad deploy"'))
    .action(async (key: string, options: RollbackOptions) => (await actions()).rollback(key, options));

  onSecret(secret, "rotate", "give a secret a new value now, by its rotation configuration, and wait until it has it")
    .addOption(jsonOption())
    .option("--value-stdin", "take the new value from standard input: for the provider generated_value alone")
    .option("--expect-version <number>", "do nothing unless this is the current version", wholeNumber)
    .option("--reason <text>", "goes into the history and the audit log")
    .addHelpText(
      "after",
      examples(
        'holdfast secret rotate DB_PASSWORD --reason "somebody left"',
        "openssl rand -hex 32 | tr -d '\\n' | holdfast secret rotate API_KEY --value-stdin",
      ),
    )
    .action(async (key: string, options: RotateOptions) => (await actions()).rotate(key, options));

  onSecret(secret, "rm", "delete a secret; it can be restored")
    .addOption(yesOption())
    .addHelpText("after", examples("holdfast secret rm DB_PASSWORD --yes"))
    .action(async (key: string, options: SecretOptions) => (await actions()).remove(key, options));

  onSecret(secret, "restore", "bring a deleted, expired or archived secret back")
    .addOption(jsonOption())
    .option("--ttl-hours <number>", "life of the secret from now on", wholeNumber)
    .addHelpText("after", examples("holdfast secret restore DB_PASSWORD"))
    .action(async (key: string, options: RestoreOptions) => (await actions()).restore(key, options));

  onSecret(secret, "copy", "create a secret in another project or environment out of this one")
    .addOption(jsonOption())
    .option("--to-project <project>", "name or id of the project of the copy")
    .option("--to-env <environment>", "environment of the copy")
    .option("--new-key <key>", "key of the copy")
    .option("--reason <text>", "goes into the history and the audit log")
    .addHelpText("after", examples("holdfast secret copy DB_PASSWORD --env staging --to-env production"))
    .action(async (key: string, options: CopyOptions) => (await actions()).copy(key, options));
}

const onSecret = (secret: Command, name: string, description: string): Command =>
  secret.command(`${name} <key>`).description(description).addOption(projectOption()).addOption(environmentOption());
