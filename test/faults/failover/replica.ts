import { ServerProcess } from "../server-process.ts";
import { WeakLink } from "./weak-link.ts";

const shiftedClock = new URL("./shifted-clock.ts", import.meta.url).href;

/** A replica of the server: a process that comes and goes, at an address that stays. */
export class Replica {
  readonly link: WeakLink;
  readonly #environment: Record<string, string>;
  #process: ServerProcess | undefined;
  /** What the processes before this one have logged. */
  #loggedBefore = "";

  private constructor(link: WeakLink, environment: Record<string, string>) {
    this.link = link;
    this.#environment = { ...environment, NODE_OPTIONS: `--import=${shiftedClock}` };
  }

  /** `environment` is that of the process. Stop it. */
  static async start(environment: Record<string, string>): Promise<Replica> {
    const replica = new Replica(await WeakLink.open(), environment);
    await replica.restart();
    return replica;
  }

  get url(): string {
    return this.link.url;
  }

  get log(): string {
    return this.#loggedBefore + (this.#process?.stdout ?? "") + (this.#process?.stderr ?? "");
  }

  /** Kills the process where it stands. */
  async kill(): Promise<void> {
    this.link.target = undefined;
    await this.#process?.kill();
    this.#loggedBefore = this.log;
    this.#process = undefined;
  }

  /** Starts a new process; one that cannot start, as while its engines are away, is followed by another. */
  async restart(): Promise<void> {
    await this.kill();
    for (let tries = 1; this.link.target === undefined; tries += 1) {
      this.#process = new ServerProcess(this.#environment, { args: ["serve", "--only", "api,jobs"] });
      try {
        this.link.target = await this.#process.ready();
      } catch (error) {
        if (tries === 10) throw error;
        await this.kill();
      }
    }
  }

  pause(): void {
    this.#process?.signal("SIGSTOP");
  }

  resume(): void {
    this.#process?.signal("SIGCONT");
  }

  /** Its clock is off from now on, by another time than before. */
  misleadClock(): void {
    this.#process?.signal("SIGUSR2");
  }

  async stop(): Promise<void> {
    await this.kill();
    await this.link.close();
  }
}
