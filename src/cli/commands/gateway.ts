import { type Command, Option } from "commander";
import type { DeactivateOptions, RetireOptions, TaskListOptions } from "../actions/gateway.ts";
import type { GatewayStatusOptions } from "../actions/gateway-status.ts";
import { examples, jsonOption, yesOption } from "./options.ts";

const taskStatuses = ["pending", "running", "succeeded", "failed", "timed_out", "cancelled"];

/** `holdfast gateway …`: the gateway itself (see docs/gateways.md), and for operators how the gateways are. */
export function declareGatewayCommands(program: Command): void {
  const actions = () => import("../actions/gateway.ts");
  const gateway = program.command("gateway").description("rotate secrets near their targets, and look after gateways");

  gateway
    .command("run", { isDefault: true })
    .description("run a gateway; settings come from variables named SERVICE_… (see docs/gateways.md)")
    .addHelpText("after", examples("holdfast gateway", "SERVICE_GATEWAY_ENVIRONMENT=production holdfast gateway run"))
    .action(async () => {
      const { runGateway } = await import("../actions/gateway-run.ts");
      await runGateway();
    });

  gateway
    .command("status")
    .description("show environments and gateways, and what could be done about them")
    .addOption(new Option("--watch", "keep looking, every two seconds, until Ctrl-C").conflicts("json"))
    .addOption(jsonOption())
    .addHelpText("after", examples("holdfast gateway status", "holdfast gateway status --watch"))
    .action(async (options: GatewayStatusOptions) => (await import("../actions/gateway-status.ts")).status(options));

  gateway
    .command("tasks <name-or-id>")
    .description("list the newest hundred tasks that were routed to a gateway")
    .addOption(jsonOption())
    .addOption(new Option("--status <status>", "those with this status").choices(taskStatuses))
    .addHelpText("after", examples("holdfast gateway tasks gw-eu-1 --status failed"))
    .action(async (name: string, options: TaskListOptions) => (await actions()).listTasks(name, options));

  gateway
    .command("deactivate <name-or-id>")
    .description("take a gateway out of service until somebody fails back, or over, to it")
    .addOption(jsonOption())
    .addOption(yesOption())
    .option("--reason <text>", "why, for the audit log")
    .option("--mark-failed", "count a primary that still talks as failed, so that the DR gateway may be activated")
    .addHelpText("after", examples("holdfast gateway deactivate gw-eu-1 --mark-failed --reason drill"))
    .action(async (name: string, options: DeactivateOptions) => (await actions()).deactivate(name, options));

  gateway
    .command("retire <name-or-id>")
    .description("remove a gateway that is not active for good; its tasks stay on record")
    .addOption(yesOption())
    .addHelpText("after", examples("holdfast gateway retire gw-eu-1"))
    .action(async (name: string, options: RetireOptions) => (await actions()).retire(name, options));
}
