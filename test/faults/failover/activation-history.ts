import type { Commit, Contradiction, GatewayChange, LockChange } from "../failover-history.ts";

/** Where a gateway may come from, by its role and where it gets to; null is where it registers first (G-8.6). */
const origins: Readonly<Record<string, readonly (string | null)[]>> = {
  "primary active": [null, "standby", "failed"],
  "primary standby": [null, "active"],
  "primary failed": ["active", "standby"],
  "dr-standby active": ["standby"],
  "dr-standby standby": [null, "active", "failed"],
  "dr-standby failed": ["active", "standby"],
};

/** Whom an operation makes the holder of its environment. */
const roleAfter: Readonly<Record<string, string>> = {
  "gateway.activate_dr": "dr-standby",
  "gateway.failback": "primary",
};

/** Who was active and who held the lock, commit by commit. */
export class ActivationHistory {
  readonly #gateways = new Map<string, GatewayChange>();
  readonly #locks = new Map<string, LockChange>();
  /** Of each environment, the highest token so far. */
  readonly #highest = new Map<string, bigint>();
  /** Of each token, whose it is. */
  readonly #owners = new Map<bigint, Set<string>>();
  /** What each recorded call of an operator did: its action, and the lock that it changed. */
  readonly #operations = new Map<string, { action: string; lock: LockChange | undefined }>();

  /** What in the next commit cannot be. */
  add(commit: Commit): Contradiction[] {
    const gateways = commit.filter((change) => change.of === "gateway");
    const locks = commit.filter((change) => change.of === "lock");
    const found = [
      ...gateways.flatMap((change) => this.#judgeRestart(change, commit)),
      ...gateways.flatMap((change) => this.#addGateway(change)),
      ...locks.flatMap((change) => this.#addLock(change)),
    ];
    for (const change of commit) {
      if (change.of === "event" && change.requestId !== null)
        this.#operations.set(change.requestId, { action: change.action, lock: locks.at(-1) });
    }
    const touched = new Set([...gateways, ...locks].map(({ environment }) => environment));
    return [...found, ...[...touched].flatMap((environment) => this.#judge(environment))];
  }

  /** Who holds an environment now, and under which token. */
  lockOf(environment: string): { readonly holder: string | null; readonly token: bigint | null } {
    return this.#locks.get(environment) ?? { holder: null, token: null };
  }

  gateway(id: string): GatewayChange | undefined {
    return this.#gateways.get(id);
  }

  wasGiven(gateway: string, token: bigint): boolean {
    return this.#owners.get(token)?.has(gateway) === true;
  }

  /** Whether the call is recorded, and has made whom it should the holder, under the token that it answered. */
  didHappen(call: { readonly action: string; readonly requestId: string; readonly token?: bigint }): boolean {
    const kept = this.#operations.get(call.requestId);
    if (kept === undefined || kept.action !== call.action) return false;
    const role = roleAfter[call.action];
    if (role === undefined) return true;
    const { holder = null, token = null } = kept.lock ?? {};
    return this.#gateways.get(holder ?? "")?.role === role && (call.token ?? token) === token;
  }

  #addGateway(change: GatewayChange): Contradiction[] {
    const from = this.#gateways.get(change.id)?.status ?? null;
    this.#gateways.set(change.id, change);
    if (change.status === from || origins[`${change.role} ${change.status}`]?.includes(from)) return [];
    return [{ what: "transition that does not exist", where: `${change.id}: ${from} to ${change.status}` }];
  }

  /** What an active gateway did before its restart must be fenced (G-8.3). */
  #judgeRestart({ id, environment, status, instance }: GatewayChange, commit: Commit): Contradiction[] {
    const before = this.#gateways.get(id);
    if (before?.status !== "active" || status !== "active" || before.instance === instance) return [];
    const { token } = this.lockOf(environment);
    const isFenced = commit.some(
      (change) => change.of === "lock" && change.environment === environment && change.token !== token,
    );
    return isFenced ? [] : [{ what: "restart that kept its token", where: `${id}: ${token}` }];
  }

  #addLock(change: LockChange): Contradiction[] {
    const { environment, holder, token } = change;
    const before = this.lockOf(environment);
    this.#locks.set(environment, change);
    if (holder === null || token === null || (holder === before.holder && token === before.token)) return [];
    const highest = this.#highest.get(environment) ?? 0n;
    this.#highest.set(environment, token > highest ? token : highest);
    this.#owners.set(token, (this.#owners.get(token) ?? new Set()).add(holder));
    if (token > highest) return [];
    return [{ what: "token that does not rise", where: `${environment}: ${token} after ${highest}` }];
  }

  #judge(environment: string): Contradiction[] {
    const ofEnvironment = [...this.#gateways.values()].filter((gateway) => gateway.environment === environment);
    const active = ofEnvironment.filter(({ status }) => status === "active").map(({ id }) => id);
    if (active.length > 1) return [{ what: "two active gateways", where: `${environment}: ${active.join(" and ")}` }];
    const { holder } = this.lockOf(environment);
    if ((active[0] ?? null) === holder) return [];
    return [
      {
        what: "holder that is not the active gateway",
        where: `${environment}: ${holder} holds, ${active[0]} is active`,
      },
    ];
  }
}
