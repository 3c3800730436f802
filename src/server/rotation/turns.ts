interface Waiting {
  readonly host: string;
  readonly begin: () => void;
}

/** Lets so much be done at once, and of it so much at each host; what is more waits, the oldest first. */
export class Turns {
  readonly #most: number;
  readonly #mostPerHost: number;
  readonly #waiting: Waiting[] = [];
  readonly #hosts = new Map<string, number>();
  #running = 0;

  constructor(most: number, mostPerHost: number) {
    this.#most = most;
    this.#mostPerHost = mostPerHost;
  }

  /** Does the work when its turn comes, and answers what it answers. */
  async take<T>(host: string, work: () => Promise<T>): Promise<T> {
    const turn = Promise.withResolvers<void>();
    this.#waiting.push({ host, begin: turn.resolve });
    this.#beginNext();
    await turn.promise;
    try {
      return await work();
    } finally {
      this.#count(host, -1);
      this.#beginNext();
    }
  }

  #beginNext(): void {
    while (this.#running < this.#most) {
      const index = this.#waiting.findIndex(({ host }) => (this.#hosts.get(host) ?? 0) < this.#mostPerHost);
      const [next] = index === -1 ? [] : this.#waiting.splice(index, 1);
      if (next === undefined) return;
      this.#count(next.host, 1);
      next.begin();
    }
  }

  #count(host: string, change: 1 | -1): void {
    this.#running += change;
    const atHost = (this.#hosts.get(host) ?? 0) + change;
    if (atHost === 0) this.#hosts.delete(host);
    else this.#hosts.set(host, atHost);
  }
}
