import { setTimeout as sleep } from "node:timers/promises";
import { deckOf } from "./deck.ts";
import type { Gateway } from "./gateway.ts";
import type { Operators } from "./operators.ts";
import type { Witness } from "./witness.ts";

export interface EnvironmentLifeOptions {
  readonly name: string;
  /** A primary, each on another machine. */
  readonly newPrimary: () => Gateway;
  readonly dr: Gateway;
  readonly operators: Operators;
  /** Of secrets that its gateways rotate. */
  readonly configIds: readonly string[];
  readonly random: () => number;
  readonly witness: Witness;
}

/** What a round waits for at most before it goes on with something else: nothing here may depend on being quick. */
const patienceMs = 6000;
/** Silence counts as long as somebody listens, which on a busy machine is not always so. */
const silenceMs = 20_000;

/** An environment whose gateways get into trouble, round after round, while its secrets are rotated. */
export class EnvironmentLife {
  readonly #options: EnvironmentLifeOptions;
  #primary: Gateway;
  readonly #dr: Gateway;

  constructor(options: EnvironmentLifeOptions) {
    this.#options = options;
    this.#primary = options.newPrimary();
    this.#dr = options.dr;
    options.witness.expect(...Object.keys(this.#troubles).map((trouble) => `trouble: ${trouble}`));
  }

  /** Starts its gateways, and waits until the primary serves. */
  async begin(): Promise<void> {
    this.#primary.start();
    this.#dr.start();
    const isServed = () => this.#primaryNow?.activation_status === "active" && this.#drNow !== undefined;
    if (!(await this.#reach(isServed, 60_000))) throw new Error(`${this.#options.name} never began`);
  }

  /** Has secrets rotated, one after the other, until `signal` is aborted. */
  async feed(signal: AbortSignal): Promise<void> {
    const { configIds, operators, random } = this.#options;
    for (const configId of deckOf(configIds, random)) {
      if (signal.aborted) return;
      await operators.execute(configId);
      await sleep(random() * 600, undefined, { signal }).catch(() => {});
    }
  }

  /** Gets into one trouble after the other as long as `takeRound` allows. */
  async live(takeRound: () => boolean): Promise<void> {
    const { random, witness } = this.#options;
    for (const trouble of deckOf(Object.keys(this.#troubles), random)) {
      if (!takeRound()) return;
      await this.#troubles[trouble]?.();
      witness.count(`trouble: ${trouble}`);
      await sleep(random() * 500);
    }
  }

  end(): void {
    this.#primary.kill();
    this.#dr.kill();
  }

  /** Brings the environment back to its primary; answers whether that was to be had in time. */
  async heal(withinMs = patienceMs): Promise<boolean> {
    const { name, operators } = this.#options;
    return this.#reach(
      () => this.#primaryNow?.activation_status === "active" && this.#primaryNow.healthy,
      withinMs,
      async () => {
        if (this.#primaryNow?.activation_status !== "active") await operators.failback(name);
      },
    );
  }

  /** Has every secret rotated, and waits until that has ended, well or not. */
  async rotateAll(withinMs: number): Promise<boolean> {
    const { configIds, operators } = this.#options;
    if (!(await this.#reach(() => this.#openTasks === 0, withinMs))) return false;
    for (const configId of configIds) await operators.execute(configId);
    await sleep(1000);
    return this.#reach(() => this.#openTasks === 0, withinMs);
  }

  /** How it was a moment ago. */
  get description(): string {
    const { name, operators } = this.#options;
    return JSON.stringify([operators.environment(name), this.#primaryNow, this.#drNow]);
  }

  get #openTasks(): number {
    const tasks = this.#options.operators.environment(this.#options.name)?.tasks;
    return tasks === undefined ? Number.POSITIVE_INFINITY : tasks.pending + tasks.running;
  }

  get #primaryNow() {
    return this.#options.operators.gateways(this.#options.name, "primary")[0];
  }

  get #drNow() {
    return this.#options.operators.gateways(this.#options.name, "dr-standby")[0];
  }

  readonly #troubles: Readonly<Record<string, () => Promise<void>>> = {
    "the primary stands still": async () => {
      this.#primary.pause();
      await this.#failOver();
      this.#primary.resume();
      await this.heal();
    },
    "the primary stands still for a moment": async () => {
      const { random } = this.#options;
      this.#primary.pause();
      await sleep(random() * 2500);
      this.#primary.resume();
    },
    "the primary is killed": async () => {
      this.#primary.kill();
      await this.#failOver();
      this.#primary.start();
      await this.heal();
    },
    "the primary is killed and comes back": async () => {
      const { random } = this.#options;
      this.#primary.kill();
      await sleep(random() * 500);
      this.#primary.start();
    },
    "the primary is started a second time": async () => {
      const { random } = this.#options;
      this.#primary.start();
      await sleep(random() * 500);
    },
    "the primary is replaced by another machine": async () => {
      const replaced = this.#primary;
      replaced.pause();
      await this.#failOver();
      this.#primary = this.#options.newPrimary();
      this.#primary.start();
      await this.heal();
      replaced.resume();
      await sleep(500);
      replaced.kill();
    },
    "the primary is sick": async () => {
      await this.#markFailed();
      await this.#failOver();
      await this.heal();
    },
    "the active gateway is taken out of service": async () => {
      const { name, operators } = this.#options;
      const active = operators.environment(name)?.active_gateway_id;
      if (active != null) await operators.deactivate(active);
      await this.heal();
    },
    "the DR gateway stands still after a failover": async () => {
      await this.#markFailed();
      await this.#failOver();
      this.#dr.pause();
      await this.#reach(() => this.#drNow?.activation_status === "failed", silenceMs);
      this.#dr.resume();
      await this.heal();
    },
    "the DR gateway is killed while it stands by": async () => {
      this.#dr.kill();
      await this.#reach(() => this.#drNow?.activation_status === "failed", silenceMs);
      this.#dr.start();
    },
    "both gateways are killed": async () => {
      this.#primary.kill();
      this.#dr.kill();
      await this.#reach(() => this.#primaryNow?.activation_status === "failed", silenceMs);
      this.#dr.start();
      await this.#failOver();
      this.#primary.start();
      await this.heal();
    },
    "the operators are at odds": async () => {
      const { name, operators, random } = this.#options;
      const whatever = () => {
        const dice = random();
        if (dice < 0.4) return operators.activateDr(name, random() < 0.5 ? this.#drNow?.id : undefined);
        if (dice < 0.8) return operators.failback(name);
        const gateway = random() < 0.5 ? this.#primaryNow : this.#drNow;
        return gateway === undefined ? false : operators.deactivate(gateway.id, random() < 0.5);
      };
      for (let times = 0; times < 3; times += 1) await Promise.all([whatever(), whatever(), whatever()]);
      await this.heal();
    },
  };

  async #markFailed(): Promise<void> {
    const { operators } = this.#options;
    if (this.#primaryNow !== undefined) await operators.deactivate(this.#primaryNow.id, true);
  }

  /** Activates the DR gateway as soon as that is accepted, of several operators by one. */
  async #failOver(): Promise<void> {
    const { name, operators, random } = this.#options;
    // An operator need not wait until that counts.
    if (!(await this.#reach(() => this.#primaryNow?.activation_status === "failed"))) await this.#markFailed();
    const contenders = 1 + Math.floor(random() * 3);
    // One that was deactivated takes part only when it is named.
    const activate = () => operators.activateDr(name, this.#drNow?.id);
    await this.#reach(
      () => this.#drNow?.activation_status === "active",
      patienceMs,
      async () => {
        await Promise.all(Array.from({ length: contenders }, activate));
      },
    );
    await sleep(random() * 1000);
  }

  /** Does `work` until something is so; answers whether that was in time. */
  async #reach(isSo: () => boolean, withinMs = patienceMs, work = async () => {}): Promise<boolean> {
    for (const start = performance.now(); performance.now() - start < withinMs; ) {
      if (isSo()) return true;
      await work();
      await sleep(300);
    }
    return isSo();
  }
}
