import { run } from "../../gateway/run.ts";

/** Runs the gateway until it is told to stop, and ends this process with its exit status (docs/gateways.md). */
export async function runGateway(): Promise<void> {
  process.exit(await run());
}
