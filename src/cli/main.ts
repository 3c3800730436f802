import { Command } from "commander";
import { version } from "../version.ts";

const program = new Command("holdfast")
  .description(
    "Keeps secrets, Kerberos keytabs and certificates, and keeps the gateways that rotate them failing over safely.",
  )
  .version(version)
  .showHelpAfterError("(run holdfast --help for what there is)");

program
  .command("serve")
  .description("run the server; settings come from variables named SERVICE_… (see docs/operations.md)")
  .option("--only <parts>", "run only these parts in this process, separated by commas: api, jobs, ocsp")
  .action(async ({ only }: { only?: string }) => {
    const { serve } = await import("../server/main.ts");
    await serve(only);
  });

await program.parseAsync();
