import { constants } from "node:os";
import { type Logger, pino } from "pino";
import { ExposedFile } from "./private-file.ts";

/** Why a program cannot go on; the message is one line for people, and holds no secret. */
export class ProgramFault extends Error {
  readonly exitStatus: number;

  constructor(message: string, exitStatus: number) {
    super(message);
    this.exitStatus = exitStatus;
  }
}

const exitStatus = { stopped: 0, unexpected: 1, settings: 2 };

/** Settings that stop the start; the message names each bad one. Starting again does not help. */
export class SettingError extends ProgramFault {
  constructor(message: string) {
    super(message, exitStatus.settings);
  }
}

interface ProgramOptions<S extends { readonly logLevel: string }> {
  /** What the program is, as in "agent". */
  readonly noun: string;
  /** Its name and version. */
  readonly userAgent: string;
  /** Throws a SettingError. */
  readonly readSettings: (environment: NodeJS.ProcessEnv) => S;
  /** Makes what runs until the signal is aborted. Both throw a ProgramFault when they cannot. */
  readonly make: (settings: S, logger: Logger) => { run(stop: AbortSignal): Promise<void> };
}

/**
 * Runs a program until SIGINT or SIGTERM, of which a second one ends it at once; answers the exit status. It logs JSON
 * lines on standard output; what keeps it from starting or going on is said in one line on standard error.
 */
export async function runProgram<S extends { readonly logLevel: string }>(options: ProgramOptions<S>): Promise<number> {
  const { noun, userAgent, readSettings, make } = options;
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(128 + constants.signals[signal]);
      stop.abort();
    });
  }
  try {
    const settings = readSettings(process.env);
    const logger = pino({
      level: settings.logLevel,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
    });
    const program = make(settings, logger);
    logger.info({ [noun]: userAgent }, "started");
    await program.run(stop.signal);
    logger.info("stopped");
    return exitStatus.stopped;
  } catch (error) {
    const { message, stack } = error as Error;
    if (error instanceof ExposedFile) process.stderr.write(`holdfast: ${message}; close it with: ${error.remedy}\n`);
    else process.stderr.write(`holdfast: ${error instanceof ProgramFault ? message : (stack ?? message)}\n`);
    if (error instanceof ExposedFile) return exitStatus.settings;
    return error instanceof ProgramFault ? error.exitStatus : exitStatus.unexpected;
  }
}
