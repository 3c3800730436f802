import { parseArgs } from "node:util";
import { Drill, type Report } from "./drill.ts";
import { isGood } from "./evidence.ts";
import { Installation } from "./installation.ts";

const usual = { heartbeatTimeout: 120, failureThreshold: 3 };
const mostSeconds = 3600;

const help = `npm run drill [-- --heartbeat-timeout SECONDS]

Fails an environment over and back, on a server and two gateways of its own, on loopback and in a temporary folder: the
primary is killed amid its work, the DR gateway activated by the command line, the primary brought back. Prints when what
happened, and whether any work was lost or done twice; the exit status is 1 if so.

  --heartbeat-timeout SECONDS  silence that counts as one failure, of which three make a gateway failed; 4 unless given,
                               ${usual.heartbeatTimeout} is usual in service
  --help                       this text
`;

function heartbeatTimeout(): number {
  const { values } = parseArgs({
    options: { "heartbeat-timeout": { type: "string", default: "4" }, help: { type: "boolean", default: false } },
  });
  if (values.help) {
    process.stdout.write(help);
    process.exit(0);
  }
  const seconds = Number(values["heartbeat-timeout"]);
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= mostSeconds) return seconds;
  throw new Error(`--heartbeat-timeout must be a whole number from 1 to ${mostSeconds}`);
}

function print({ detection, takeover, outage, failback, verdict }: Report, timeout: number): void {
  const { accepted, lost, committedTwice, ambiguous, diverged, triedAgain } = verdict;
  const usualSeconds = usual.heartbeatTimeout * usual.failureThreshold;
  const line = (what: string, seconds: number, how: string) =>
    console.log(`${what.padEnd(10)} ${seconds.toFixed(1).padStart(7)} s  ${how}`);
  console.log("");
  line(
    "Detection",
    detection,
    `until the primary counted as failed (${timeout} s × ${usual.failureThreshold} of silence)`,
  );
  line("Takeover", takeover, "from the command until the DR gateway had done its first task");
  line("Outage", outage, "from the kill until then");
  line("Failback", failback, "from the command until the primary had done its first task");
  console.log(
    `At a heartbeat timeout of ${usual.heartbeatTimeout} s, detection takes ${usualSeconds} s, and all else as long as here.`,
  );
  console.log(`
Rotations     ${accepted} accepted, ${triedAgain} attempts repeated
              ${lost.length} lost, ${committedTwice.length} secrets with a version too many or too few
              ${ambiguous.length} applied with two values, ${diverged.length} targets with another value than Holdfast
`);
}

/** Answers the exit status. */
async function run(timeout: number): Promise<number> {
  const installation = new Installation(timeout);
  let interrupted: number | undefined;
  for (const [signal, status] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    process.on(signal, () => {
      interrupted = status;
      installation.interrupt();
    });
  }
  console.log(`Failover drill at a heartbeat timeout of ${timeout} s (${usual.heartbeatTimeout} s is usual)\n`);
  try {
    const report = await new Drill(installation, timeout * usual.failureThreshold).run();
    print(report, timeout);
    console.log(
      isGood(report.verdict) ? "The drill went well." : `The drill went wrong: ${JSON.stringify(report.verdict)}`,
    );
    return isGood(report.verdict) ? 0 : 1;
  } catch (error) {
    if (interrupted !== undefined) return interrupted;
    console.error(`\nThe drill broke off: ${(error as Error).message}\n\n${installation.lastWords}`);
    return 1;
  } finally {
    await installation.stop();
  }
}

try {
  process.exitCode = await run(heartbeatTimeout());
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 2;
}
