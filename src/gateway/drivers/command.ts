import type { JsonObject } from "@bufbuild/protobuf";
import type { z } from "zod";
import type { command } from "../../targets/drivers/command.ts";
import type { Applier, Assignment, Permit } from "../../targets/drivers/driver.ts";
import { TargetError } from "../../targets/target-error.ts";
import type { Command } from "../commands-file.ts";
import { type Ending, runInGroup } from "../process-group.ts";

/** Of sysexits(3): what was asked makes no sense (EX_USAGE, EX_DATAERR), is not permitted, or the set-up is wrong. */
const permanentStatuses: ReadonlySet<number | null> = new Set([64, 65, 77, 78]);

/** Why a command cannot be started, if that stays so. */
const permanentFaults: ReadonlySet<unknown> = new Set(["ENOENT", "EACCES", "EPERM", "ENOEXEC", "ENOTDIR", "ELOOP"]);

/**
 * Runs a command that whoever runs the gateway has allowed by name. It reads one JSON object from its standard input, and
 * says by its exit status how it went; the last line on its standard error says why.
 */
export class CommandApplier implements Applier {
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
    const { command: name, parameters } = assignment.settings as z.output<typeof command.settings>;
    const allowed = this.#commands.get(name);
    if (allowed === undefined) {
      const message = `the command ${name} is not allowed on this gateway`;
      throw new TargetError("invalid", message, { permanent: true, unchanged: true });
    }
    const input = `${JSON.stringify(inputOf(action, assignment, parameters))}\n`;
    const environment = { PATH: process.env["PATH"], ...allowed.environment };
    permit.check();
    const ending = await runInGroup({ argv: allowed.argv, environment, input, signal: permit.signal }).catch(
      cannotStart,
    );
    if (ending.status !== 0) throw failureOf(ending);
  }
}

const inputOf = (action: string, assignment: Assignment, parameters: JsonObject) => ({
  action,
  task_id: assignment.taskId,
  attempt: assignment.attempt,
  secret_id: assignment.secretId,
  key: assignment.key,
  environment: assignment.environment,
  value: assignment.value,
  previous_value: assignment.previousValue ?? null,
  earlier_candidates: assignment.earlierCandidates,
  parameters,
  credentials: assignment.credentials ?? {},
});

function cannotStart(error: NodeJS.ErrnoException): never {
  const { code = "unknown" } = error;
  throw new TargetError("invalid", `the command cannot be started (${code})`, {
    permanent: permanentFaults.has(code),
    unchanged: true,
    cause: error,
  });
}

function failureOf({ status, signal, lastLine }: Ending): TargetError {
  const how = signal === null ? `ended with status ${status}` : `was ended by ${signal}`;
  const why = lastLine === "" ? "" : `: ${lastLine}`;
  return new TargetError("refused", `the command ${how}${why}`, { permanent: permanentStatuses.has(status) });
}
