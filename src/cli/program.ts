import { Argument, Command } from "commander";
import { version } from "../version.ts";
import { declareAgentCommands } from "./commands/agent.ts";
import { declareAgentAdminCommands } from "./commands/agent-admin.ts";
import { declareAuthorityCommands } from "./commands/ca.ts";
import { declareCertificateCommands } from "./commands/cert.ts";
import { declareFailoverCommands } from "./commands/failover.ts";
import { declareGatewayCommands } from "./commands/gateway.ts";
import { declareGovernanceCommands } from "./commands/governance.ts";
import { declareHostCommands } from "./commands/host.ts";
import { declareIdentityCommands } from "./commands/identity.ts";
import { declareKeytabCommands } from "./commands/keytab.ts";
import { declareLinkCommands } from "./commands/link.ts";
import { declareLoginCommands } from "./commands/login.ts";
import { examples } from "./commands/options.ts";
import { declareRoleCommands } from "./commands/role.ts";
import { declareRotationCommands } from "./commands/rotation.ts";
import { declareRunCommand } from "./commands/run.ts";
import { declareSecretCommands } from "./commands/secret.ts";
import { declareSyncCommands } from "./commands/sync.ts";
import { declareTokenCommands } from "./commands/token.ts";
import { declareUserCommands } from "./commands/user.ts";
import type { Shell } from "./completion.ts";

/** Everything that can be typed. What a command does is loaded when it is run. */
export function createProgram(): Command {
  const program = new Command("holdfast")
    .description(
      "Keeps secrets, Kerberos keytabs and certificates, and keeps the gateways that rotate them failing over safely.",
    )
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(faultText(text)) })
    .showHelpAfterError("(run holdfast --help for what there is)");

  program
    .command("serve")
    .description("run the server; settings come from variables named SERVICE_… (see docs/operations.md)")
    .option("--only <parts>", "run only these parts in this process, separated by commas: api, jobs, ocsp")
    .action(async ({ only }: { only?: string }) => {
      const { serve } = await import("../server/main.ts");
      await serve(only);
    });
  program
    .command("ocsp")
    .description("run the OCSP responder alone, as `serve --only ocsp` does; settings as for serve")
    .addHelpText("after", examples("SERVICE_OCSP_PORT=8081 holdfast ocsp"))
    .action(async () => {
      const { serve } = await import("../server/main.ts");
      await serve("ocsp");
    });
  declareLoginCommands(program);
  declareSecretCommands(program);
  declareRotationCommands(program);
  declareLinkCommands(program);
  declareSyncCommands(program);
  declareRunCommand(program);
  declareKeytabCommands(program);
  declareAuthorityCommands(program);
  declareCertificateCommands(program);
  declareAgentCommands(program);
  declareGatewayCommands(program);
  declareFailoverCommands(program);
  declareGovernanceCommands(program);
  declareTokenCommands(program);
  const admin = program.command("admin").description("people, machines and roles; and the server's own host");
  declareUserCommands(admin);
  declareIdentityCommands(admin);
  declareRoleCommands(admin);
  declareAgentAdminCommands(admin);
  declareHostCommands(admin);
  program
    .command("completion")
    .description("print a script that completes commands and options")
    .addArgument(new Argument("<shell>").choices(["bash", "zsh", "fish"]))
    .addHelpText(
      "after",
      examples(
        'eval "$(holdfast completion bash)"',
        "holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
      ),
    )
    .action(async (shell: Shell) => {
      const { completionScript } = await import("./completion.ts");
      process.stdout.write(completionScript(shell, program));
    });
  return program;
}

/** What is wrong with the arguments, without repeating what may be a secret in the wrong place. */
function faultText(text: string): string {
  return text
    .replace(/^error: /, "holdfast: ")
    .replace(/(--[^='\s]+)=[^']*/, "$1")
    .replace(/( but got \d+): .*/s, "$1.\n");
}
