/** How long the source of answers may take, in milliseconds. */
export const patienceMs = 2000;

/** A timer that fires so much later was held up by this process itself. */
const slackMs = 100;

/** The source of answers did not answer in time. */
export class TooLate extends Error {}

/** A wait for the source of answers that comes to an end whatever that does. */
export class Wait<T> {
  /** As what is waited for; rejects with TooLate. */
  readonly settled: Promise<T>;
  readonly #giveUp: () => void;
  #timer: NodeJS.Timeout | undefined;
  #dueAt = 0;
  #isSecond = false;

  constructor(asked: Promise<T>, ms = patienceMs) {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.settled = promise;
    this.#giveUp = () => reject(new TooLate("the source of OCSP answers takes too long"));
    asked.then(resolve, reject).finally(() => clearTimeout(this.#timer));
    this.within(ms);
  }

  /** Ends it so many milliseconds from now. */
  within(ms: number): void {
    clearTimeout(this.#timer);
    this.#dueAt = performance.now() + ms;
    this.#timer = setTimeout(() => this.#end(), ms);
  }

  /** Whether this process was, as by SIGSTOP: a wait that took so long says nothing of the source. */
  get wasHeldUp(): boolean {
    return this.#isSecond || performance.now() > this.#dueAt + slackMs;
  }

  /** What was answered while this process was held up has still to be read, so there is a second time then. */
  #end(): void {
    if (this.#isSecond || !this.wasHeldUp) return this.#giveUp();
    this.#isSecond = true;
    this.within(patienceMs);
  }
}
