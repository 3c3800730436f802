import { Program } from "../harness/program.ts";
import type { Gateway } from "./simulated-gateway.ts";

/** Of a process that another one has taken the place of. */
const supersededStatus = 3;
const restartMs = 1000;

/** A gateway as it is run on hosts. */
export class GatewayProcess implements Gateway {
  readonly #environment: Record<string, string>;
  /** More than one, when it was started although it ran. */
  #programs: Program[] = [];

  /** `settings` are without the prefix SERVICE_. */
  constructor(settings: Readonly<Record<string, string>>) {
    const named = Object.entries({ GATEWAY_PORT: "off", ...settings }).map(([name, value]) => [
      `SERVICE_${name}`,
      value,
    ]);
    this.#environment = { PATH: process.env["PATH"] ?? "", HOME: "/", ...Object.fromEntries(named) };
  }

  start(): void {
    const program = new Program("gateway", this.#environment);
    this.#programs.push(program);
    void program.ended.then((status) => {
      if (status === supersededStatus) setTimeout(() => this.#replace(program), restartMs);
    });
  }

  /** As an operator would in the end: but of two processes, the first is not started again. */
  #replace(program: Program): void {
    if (program === this.#programs.at(-1)) this.start();
  }

  pause(): void {
    this.#signal("SIGSTOP");
  }

  resume(): void {
    this.#signal("SIGCONT");
  }

  kill(): void {
    this.#signal("SIGKILL");
    this.#programs = [];
  }

  #signal(signal: NodeJS.Signals): void {
    for (const { child } of this.#programs) child.kill(signal);
  }
}
