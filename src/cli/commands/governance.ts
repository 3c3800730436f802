import type { Command } from "commander";
import { examples, type Json, jsonOption, yesOption } from "./options.ts";

const report = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";

/** `holdfast governance …`: reports of what the organization requires. */
export function declareGovernanceCommands(program: Command): void {
  const governance = program
    .command("governance")
    .description("compare the organization with what a governance report requires");
  const actions = () => import("../actions/governance.ts");

  governance
    .command("import <file>")
    .description("have a report kept and evaluated, which is the current one from then on; - is standard input")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast governance import requirements.json"))
    .action(async (file: string, options: Json) => (await actions()).importFile(file, options));

  governance
    .command("status [report]")
    .description("show what the last evaluation of the current report found, or of the report with this id")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast governance status"))
    .action(async (id: string | undefined, options: Json) => (await actions()).status(id, options));

  governance
    .command("list")
    .description("list the reports, newest first")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast governance list"))
    .action(async (options: Json) => (await actions()).list(options));

  governance
    .command("evaluate [report]")
    .description("compare the organization as it is now with the current report, or with the report with this id")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast governance evaluate"))
    .action(async (id: string | undefined, options: Json) => (await actions()).evaluate(id, options));

  governance
    .command("rm <report>")
    .description("remove a report; when it was the current one, the newest that is left becomes that")
    .addOption(yesOption())
    .addHelpText("after", examples(`holdfast governance rm ${report} --yes`))
    .action(async (id: string, options: { readonly yes?: boolean }) => (await actions()).remove(id, options));
}
