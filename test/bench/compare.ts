import type { Effort } from "./options.ts";
import type { Scenario } from "./scenarios.ts";
import { medianRatio, medianRound, type Subject, takeTurns, warmUp } from "./subjects.ts";
import { atMost, type Line } from "./table.ts";

const connectionsForP99 = 16;

/** Measures a scenario at each number of connections. */
export async function compare({ name, ours, against }: Scenario, effort: Effort): Promise<Line[]> {
  const subjects: Subject[] = [ours, ...against.map(({ subject }) => subject)];
  const most = Math.max(...effort.connections);
  const lines: Line[] = [];
  await warmUp(subjects, most, effort);
  for (const connections of effort.connections) {
    const [ourRounds = [], ...others] = await takeTurns(subjects, connections, effort);
    const { perSecond, ...figures } = medianRound(ourRounds);
    against.forEach(({ subject, target, p99AtMost, serverTime }, at) => {
      const theirRounds = others[at] ?? [];
      const theirs = medianRound(theirRounds);
      lines.push({
        scenario: name,
        connections,
        figure: medianRatio(ourRounds, theirRounds, "perSecond"),
        target: connections === most ? target : undefined,
        ours: perSecond,
        against: subject.name,
        theirs: theirs.perSecond,
        ...(at === 0 ? figures : {}),
      });
      if (serverTime) {
        lines.push({
          scenario: `${name}: server time`,
          connections,
          figure: 1 / medianRatio(ourRounds, theirRounds, "serverMicros"),
          against: `${subject.name} (${theirs.serverMicros.toFixed(0)} us)`,
          serverMicros: figures.serverMicros,
        });
      }
      if (p99AtMost !== undefined && connections === connectionsForP99) {
        lines.push({
          scenario: `${name}: p99`,
          connections,
          figure: medianRatio(ourRounds, theirRounds, "p99"),
          target: atMost(p99AtMost),
          against: `${subject.name} (${theirs.p99.toFixed(2)} ms)`,
          p99: figures.p99,
        });
      }
    });
  }
  return lines;
}
