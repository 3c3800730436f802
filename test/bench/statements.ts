import type { StatementJob } from "./load.ts";
import type { LoadProcess } from "./processes.ts";
import type { Holdfast } from "./stage.ts";
import type { Subject } from "./subjects.ts";

/** What a server does for gateways, done in its database by a process that does nothing else: it counts as the server. */
export function statementSubject(
  name: string,
  load: LoadProcess,
  { databaseUrl }: Holdfast,
  work: StatementJob["work"],
): Subject {
  return {
    name,
    pid: load.pid,
    loadPids: [],
    run: async (inFlight, pace) => [await load.run({ kind: "statements", databaseUrl, work, inFlight, ...pace })],
  };
}
