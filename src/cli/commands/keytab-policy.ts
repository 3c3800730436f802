import { type Command, Option } from "commander";
import type { PreviewOptions, TermsOptions } from "../actions/keytab-policy.ts";
import { examples, type Json, jsonOption, wholeNumber, words } from "./options.ts";

/** What of `holdfast keytab …` has to do with the cipher policy. */
export function declareComplianceCommands(keytab: Command): void {
  const actions = () => import("../actions/keytab-policy.ts");

  keytab
    .command("check <id>")
    .description("check a keytab against the cipher policy of the moment")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast keytab check kt_0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55"))
    .action(async (id: string, options: Json) => (await actions()).check(id, options));

  keytab
    .command("refresh")
    .description("check all keytabs against the cipher policy of the moment")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast keytab refresh"))
    .action(async (options: Json) => (await actions()).refresh(options));

  keytab
    .command("dashboard")
    .description("count keytabs, their encryption types, and what to look at on hosts")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast keytab dashboard"))
    .action(async (options: Json) => (await import("../actions/keytab-dashboard.ts")).dashboard(options));

  const policy = keytab.command("policy").description("say which encryption types keytabs may hold");

  policy
    .command("get")
    .description("show the cipher policy")
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast keytab policy get --json > policy.json"))
    .action(async (options: Json) => (await actions()).getPolicy(options));

  withTerms(policy.command("set"))
    .description("replace the cipher policy, or a part of it; keytabs keep their verdicts until they are checked")
    .addHelpText("after", examples("holdfast keytab policy set --mode enforce && holdfast keytab refresh"))
    .action(async (options: TermsOptions) => (await actions()).setPolicy(options));

  withTerms(policy.command("preview"))
    .description("show whose verdict another cipher policy would change, and change nothing")
    .option("--limit <number>", "how many keytabs and files are listed at most, 100 unless given", wholeNumber)
    .addHelpText("after", examples("holdfast keytab policy preview --allow aes256-sha1,aes128-sha1 --deprecate ''"))
    .action(async (options: PreviewOptions) => (await actions()).previewPolicy(options));
}

/** What is not given stays as it is on the server. */
const withTerms = (command: Command): Command =>
  command
    .addOption(jsonOption())
    .option("--allow <types>", "the types that keytabs may hold, separated by commas", words)
    .option("--deprecate <types>", "those of them that are warned of, separated by commas", words)
    .addOption(new Option("--mode <mode>", "only mark what is not allowed, or refuse it").choices(["warn", "enforce"]))
    .addOption(
      new Option("-f, --file <file>", "a whole policy in JSON, as the API takes it").conflicts([
        "allow",
        "deprecate",
        "mode",
      ]),
    );
