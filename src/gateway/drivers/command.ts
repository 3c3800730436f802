import { z } from "zod";
import type { Command } from "../commands-file.ts";
import { type Ending, runInGroup } from "../process-group.ts";
import { type Assignment, type Driver, DriverError, type Permit } from "./driver.ts";

const Settings = z.object({ command: z.string(), parameters: z.record(z.string(), z.unknown()).default({}) });

/** Of sysexits(3): what was asked makes no sense (EX_USAGE, EX_DATAERR), is not permitted, or the set-up is wrong. */
const permanentStatuses: ReadonlySet<number | null> = new Set([64, 65, 77, 78]);

/** Why a command cannot be started, if that stays so. */
const permanentFaults: ReadonlySet<unknown> = new Set(["ENOENT", "EACCES", "EPERM", "ENOEXEC", "ENOTDIR", "ELOOP"]);

/**
 * Runs a command that whoever runs the gateway has allowed by name. It reads one JSON object from its standard input, and
 * says by its exit status how it went; the last line on its standard error says why.
 */
export class CommandDriver implements Driver {
  readonly #commands: ReadonlyMap<string, Command>;

  constructor(commands: ReadonlyMap<string, Command>) {
    this.#commands = commands;
  }

  async apply(assignment: Assignment, permit: Permit): Promise<undefined> {
    await this.#run("apply", assignment, permit);
  }

  verify(assignment: Assignment, permit: Permit): Promise<void> {
    return this.#run("verify", assignment, permit);
  }

  async #run(action: "apply" | "verify", assignment: Assignment, permit: Permit): Promise<void> {
    const { success, data: settings } = Settings.safeParse(assignment.settings ?? {});
    if (!success) throw new DriverError("the settings of the command are not understood", { permanent: true });
    const command = this.#commands.get(settings.command);
    if (command === undefined)
      throw new DriverError(`the command ${settings.command} is not allowed on this gateway`, { permanent: true });
    const input = `${JSON.stringify(inputOf(action, assignment, settings.parameters))}\n`;
    const environment = { PATH: process.env["PATH"], ...command.environment };
    permit.check();
    const ending = await runInGroup({ argv: command.argv, environment, input, signal: permit.signal }).catch(
      cannotStart,
    );
    if (ending.status !== 0) throw failureOf(ending);
  }
}

const inputOf = (action: string, assignment: Assignment, parameters: Record<string, unknown>) => ({
  action,
  task_id: assignment.taskId,
  attempt: assignment.attempt,
  secret_id: assignment.secretId,
  key: assignment.key,
  environment: assignment.environment,
  value: assignment.value,
  previous_value: assignment.previousValue ?? null,
  parameters,
  credentials: assignment.credentials ?? {},
});

function cannotStart(error: NodeJS.ErrnoException): never {
  const { code = "unknown" } = error;
  throw new DriverError(`the command cannot be started (${code})`, {
    permanent: permanentFaults.has(code),
    cause: error,
  });
}

function failureOf({ status, signal, lastLine }: Ending): DriverError {
  const how = signal === null ? `ended with status ${status}` : `was ended by ${signal}`;
  const why = lastLine === "" ? "" : `: ${lastLine}`;
  return new DriverError(`the command ${how}${why}`, { permanent: permanentStatuses.has(status) });
}
