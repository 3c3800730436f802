import type { StatementJob } from "./load.ts";
import type { LoadProcess } from "./processes.ts";
import type { Holdfast } from "./stage.ts";
import type { Subject } from "./subjects.ts";

/**
 * What a server does, done in its database, and at these ports, by a process that does nothing else: it counts as the
 * server.
 */
export function statementSubject(
  name: string,
  load: LoadProcess,
  { databaseUrl }: Pick<Holdfast, "databaseUrl">,
  work: StatementJob["work"],
  ports: readonly number[] = [],
): Subject {
  return {
    name,
    pid: load.pid,
    loadPids: [],
    run: async (inFlight, pace) => [
      await load.run({ kind: "statements", databaseUrl, work, ports, inFlight, ...pace }),
    ],
  };
}
