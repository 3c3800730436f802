import { type Command, Option } from "commander";
import type { EnrollAgentOptions } from "../actions/agent.ts";
import type { ScanCommandOptions } from "../actions/agent-scan.ts";
import { each, examples } from "./options.ts";

/** `holdfast agent …`: on hosts whose keytabs are to be known (see docs/agents.md). */
export function declareAgentCommands(program: Command): void {
  const actions = () => import("../actions/agent.ts");
  const agent = program.command("agent").description("find the keytabs of this host and report them to a server");

  agent
    .command("run", { isDefault: true })
    .description("run the agent; settings come from variables named SERVICE_… (see docs/agents.md)")
    .addHelpText("after", examples("holdfast agent", "SERVICE_AGENT_ROOTS=/srv,/opt holdfast agent run"))
    .action(async () => {
      const { runAgent } = await import("../actions/agent-run.ts");
      await runAgent();
    });

  agent
    .command("enroll")
    .description("exchange an enrollment token for credentials of this host's own")
    .option("--url <url>", "the server, or its replicas separated by commas; SERVICE_SERVER_URL unless given")
    .option(
      "--token-file <file>",
      "where the token is; SERVICE_ENROLLMENT_TOKEN unless given, else it is asked for or read from standard input",
    )
    .option("--force", "replace the credentials that this host has")
    .addHelpText("after", examples("holdfast agent enroll --url https://holdfast.example.org < token"))
    .action(async (options: EnrollAgentOptions) => (await actions()).enrollAgent(options));

  agent
    .command("scan")
    .description("print what the agent would report of this host, without a server")
    .addOption(new Option("--json", "print it as JSON"))
    .option("--root <path>", "a file, folder or pattern to look at besides; may be given more than once", each)
    .option("--no-default-places", "look at nothing else")
    .option("--other-file-systems", "look also at what is mounted below a place")
    .addHelpText("after", examples("holdfast agent scan", "sudo holdfast agent scan --json --root '/home/*/*.keytab'"))
    .action(async (options: ScanCommandOptions) => (await import("../actions/agent-scan.ts")).scan(options));
}
