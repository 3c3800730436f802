import { Program } from "../../harness/program.ts";
import type { GatewayProcess } from "./gateway.ts";
import type { Witness } from "./witness.ts";

/** Of a process that another one has taken the place of. */
const supersededStatus = 3;

/** A process of a gateway as it is run on hosts. */
export class ProgramProcess implements GatewayProcess {
  readonly superseded: Promise<boolean>;
  readonly #program: Program;

  /** `settings` are without the prefix SERVICE_. */
  constructor(settings: Readonly<Record<string, string>>, witness: Witness) {
    const named = Object.entries(settings).map(([name, value]) => [`SERVICE_${name}`, value]);
    this.#program = new Program("gateway", { PATH: process.env["PATH"], HOME: "/", ...Object.fromEntries(named) });
    this.superseded = this.#program.ended.then((how) => {
      const isExplained = how === supersededStatus || how === "SIGKILL";
      if (!isExplained) witness.strange.push(`a gateway ended (${how}): ${this.#program.output.slice(-1000)}`);
      return how === supersededStatus;
    });
  }

  pause(): void {
    this.#program.child.kill("SIGSTOP");
  }

  resume(): void {
    this.#program.child.kill("SIGCONT");
  }

  kill(): void {
    this.#program.child.kill("SIGKILL");
  }
}
