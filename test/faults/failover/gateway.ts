import { setTimeout as sleep } from "node:timers/promises";

/** A process of a gateway, whether it is one of its own or not. */
export interface GatewayProcess {
  /** Settles when it has ended: with true if it found that another one has taken its place. */
  readonly superseded: Promise<boolean>;
  /** Lets it stand where it is. */
  pause(): void;
  resume(): void;
  kill(): void;
}

/** From the end of a process that was superseded to the next. */
const restartMs = 1000;

/** A gateway on its host, where processes of it come and go. */
export class Gateway {
  readonly #begin: () => GatewayProcess;
  /** More than one, when it was started although it ran. */
  #processes: GatewayProcess[] = [];

  /** `begin` starts a process. */
  constructor(begin: () => GatewayProcess) {
    this.#begin = begin;
  }

  /** Starts a process; one that runs goes on. */
  start(): void {
    const started = this.#begin();
    this.#processes.push(started);
    void this.#keepUp(started);
  }

  pause(): void {
    for (const each of this.#processes) each.pause();
  }

  resume(): void {
    for (const each of this.#processes) each.resume();
  }

  kill(): void {
    for (const each of this.#processes) each.kill();
    this.#processes = [];
  }

  /**
   * Starts it again when it was superseded by one that is no more: the registration of a process may arrive after that
   * of the next. But of two that run, only the last may come back, or they would take turns.
   */
  async #keepUp(started: GatewayProcess): Promise<void> {
    if (!(await started.superseded)) return;
    await sleep(restartMs);
    if (started === this.#processes.at(-1)) this.start();
  }
}
