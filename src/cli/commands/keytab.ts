import { type Command, Option } from "commander";
import type { DownloadOptions, ImportOptions, ListOptions, RemoveOptions, ReplaceOptions } from "../actions/keytab.ts";
import type { InspectOptions } from "../actions/keytab-inspect.ts";
import { declareDiscoveredCommands } from "./keytab-discovered.ts";
import { declareComplianceCommands } from "./keytab-policy.ts";
import { examples, instant, type Json, jsonOption, wholeNumber, yesOption } from "./options.ts";

/** `holdfast keytab …`: files, and the records that the server has of them, by their id. */
export function declareKeytabCommands(program: Command): void {
  const keytab = program.command("keytab").description("keep Kerberos keytabs, and look into them");
  const actions = () => import("../actions/keytab.ts");

  keytab
    .command("inspect <file>")
    .description("print what is in a keytab file as klist -kte does, without a server; - is standard input")
    .addOption(new Option("--json", "print it as JSON"))
    .addOption(new Option("--policy", "say what the server's cipher policy says of it").conflicts("policyFile"))
    .option("--policy-file <file>", "say what the cipher policy in this file says of it")
    .addHelpText("after", examples("holdfast keytab inspect /etc/krb5.keytab --policy"))
    .action(async (file: string, options: InspectOptions) =>
      (await import("../actions/keytab-inspect.ts")).inspect(file, options),
    );

  keytab
    .command("import <file>")
    .description("have a keytab file kept by the server; - is standard input")
    .addOption(jsonOption())
    .addOption(keytabProjectOption())
    .option("--name <name>", "free text; the principal unless given")
    .option("--expires-at <time>", "when it counts as expired, as in 2027-01-31T12:00:00Z", instant)
    .option("--notes <text>", "free text")
    .addHelpText("after", examples("holdfast keytab import http.keytab --name web --expires-at 2027-01-31T12:00:00Z"))
    .action(async (file: string, options: ImportOptions) => (await actions()).importFile(file, options));

  keytab
    .command("list")
    .description("list keytabs, newest first")
    .addOption(jsonOption())
    .addOption(keytabProjectOption())
    .addOption(new Option("--status <status>", "those with this status").choices(["active", "disabled", "expired"]))
    .addOption(complianceOption())
    .addOption(new Option("--source <source>", "those that came so").choices(["import", "discovered", "agent"]))
    .option("--realm <realm>", "those of this realm, whatever its case")
    .option("--principal <text>", "those whose principal contains this text, whatever its case")
    .addHelpText("after", examples("holdfast keytab list --compliance non_compliant --realm EXAMPLE.COM"))
    .action(async (options: ListOptions) => (await actions()).list(options));

  keytab
    .command("get <id>")
    .description("show the record of a keytab")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast keytab get kt_0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"))
    .action(async (id: string, options: Json) => (await actions()).get(id, options));

  keytab
    .command("download <id>")
    .description("fetch the very file, with its keys")
    .option("-o, --output <file>", "where to write it, for its owner only; standard output unless given")
    .option("--version <number>", "a version other than the current one", wholeNumber)
    .addHelpText("after", examples("holdfast keytab download kt_0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55 -o http.keytab"))
    .action(async (id: string, options: DownloadOptions) => (await actions()).download(id, options));

  keytab
    .command("replace <id> <file>")
    .description("have another file kept as the next version of a keytab; - is standard input")
    .addOption(jsonOption())
    .option("--reason <text>", "goes into the history and the audit log")
    .addHelpText(
      "after",
      examples("holdfast keytab replace kt_0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55 new.keytab --reason rotated"),
    )
    .action(async (id: string, file: string, options: ReplaceOptions) => (await actions()).replace(id, file, options));

  keytab
    .command("history <id>")
    .description("list the versions of a keytab, newest first")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast keytab history kt_0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"))
    .action(async (id: string, options: Json) => (await actions()).history(id, options));

  keytab
    .command("rm <id>")
    .description("delete a keytab; its versions stay for the audit")
    .addOption(yesOption())
    .addHelpText("after", examples("holdfast keytab rm kt_0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55 --yes"))
    .action(async (id: string, options: RemoveOptions) => (await actions()).remove(id, options));

  declareComplianceCommands(keytab);
  declareDiscoveredCommands(keytab);
}

/** Unlike a secret, a keytab may belong to no project, so none is taken from the environment. */
const keytabProjectOption = () => new Option("-p, --project <project>", "name or id of the project that it belongs to");

const complianceOption = () =>
  new Option("--compliance <verdict>", "those with this verdict").choices(["compliant", "warning", "non_compliant"]);
