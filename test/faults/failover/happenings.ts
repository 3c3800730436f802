import type { Commit } from "../failover-history.ts";

/** How often what happened, by the database's own record: each change of a gateway, each token, each end of a task. */
export function happeningsIn(commits: readonly Commit[]): Map<string, number> {
  const counts = new Map<string, number>();
  const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
  /** Of gateways and tasks. */
  const statuses = new Map<string, string>();
  const tokens = new Map<string, bigint | null>();
  for (const change of commits.flat()) {
    if (change.of === "gateway") {
      const before = statuses.get(change.id) ?? "new";
      statuses.set(change.id, change.status);
      if (before !== change.status) count(`${change.role}: ${before} to ${change.status}`);
    }
    if (change.of === "lock") {
      if (change.token !== null && change.token !== tokens.get(change.environment)) count("tokens given");
      tokens.set(change.environment, change.token);
    }
    if (change.of === "task") {
      const isNew = !statuses.has(change.id);
      statuses.set(change.id, change.status);
      if (isNew && change.retryOf !== null) count(`${change.type}: tried again`);
      if (change.status !== "pending") count(`${change.type}: ${change.status}`);
    }
  }
  return counts;
}
