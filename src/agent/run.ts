import { pino } from "pino";
import { ExposedFile } from "../client/private-file.ts";
import { Agent } from "./agent.ts";
import { userAgent } from "./host.ts";
import { readSettings, SettingError } from "./settings.ts";

/** A bad setting is not helped by starting again. */
const exitStatus = { stopped: 0, unexpected: 1, settings: 2 };

/** Runs the agent until SIGINT or SIGTERM; answers the exit status. What keeps it from starting is said in one line. */
export async function run(): Promise<number> {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stop.abort());
  try {
    const settings = readSettings(process.env);
    const logger = pino({
      level: settings.logLevel,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
    });
    const agent = new Agent(settings, logger);
    logger.info({ agent: userAgent }, "started");
    await agent.run(stop.signal);
    logger.info("stopped");
    return exitStatus.stopped;
  } catch (error) {
    const { message, stack } = error as Error;
    if (error instanceof ExposedFile) process.stderr.write(`holdfast: ${message}; close it with: ${error.remedy}\n`);
    else if (error instanceof SettingError) process.stderr.write(`holdfast: ${message}\n`);
    else process.stderr.write(`holdfast: ${stack ?? message}\n`);
    return error instanceof SettingError || error instanceof ExposedFile ? exitStatus.settings : exitStatus.unexpected;
  }
}
