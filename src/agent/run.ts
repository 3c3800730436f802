import { runProgram } from "../client/program.ts";
import { Agent } from "./agent.ts";
import { userAgent } from "./host.ts";
import { readSettings } from "./settings.ts";

/** Runs the agent until SIGINT or SIGTERM; answers the exit status. */
export const run = (): Promise<number> =>
  runProgram({
    noun: "agent",
    userAgent,
    readSettings,
    make: (settings, logger) => new Agent(settings, logger),
  });
