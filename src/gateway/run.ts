import { runProgram } from "../client/program.ts";
import { Gateway } from "./gateway.ts";
import { userAgent } from "./identity.ts";
import { readSettings } from "./settings.ts";

/** Runs the gateway until SIGINT or SIGTERM; answers the exit status. */
export const run = (): Promise<number> =>
  runProgram({
    noun: "gateway",
    userAgent,
    readSettings,
    make: (settings, logger) => new Gateway(settings, logger),
  });
