import { unavailable } from "../errors.ts";

/** Of an organization, with the one that is done. */
const mostQueued = 10;

/**
 * Work of which a process does one piece at a time. Each organization has one piece in the queue and all others behind it,
 * so whoever asks for much waits for themselves.
 */
export class OneAtATime {
  #last: Promise<void> = Promise.resolve();
  readonly #queues = new Map<string, Promise<void>[]>();

  /** Throws SERVICE_UNAVAILABLE when too much of the organization is waiting already. */
  async run<T>(organizationId: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(organizationId) ?? [];
    if (queue.length >= mostQueued) throw unavailable("too many reports of the organization are being evaluated");
    const { promise: done, resolve: end } = Promise.withResolvers<void>();
    const before = queue.at(-1);
    queue.push(done);
    this.#queues.set(organizationId, queue);
    try {
      await before;
      const others = this.#last;
      this.#last = done;
      await others;
      return await work();
    } finally {
      void queue.shift();
      if (queue.length === 0) this.#queues.delete(organizationId);
      end();
    }
  }
}
