import type { Assignment, Permit } from "../../../src/targets/drivers/driver.ts";

/** A value that is to be applied, for a driver that needs no settings. */
export const assignmentOf = (fields: Partial<Assignment> = {}): Assignment => ({
  taskId: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55",
  attempt: 1,
  secretId: "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f57",
  key: "DB_PASSWORD",
  environment: "production",
  value: "the-candidate-value",
  earlierCandidates: [],
  ...fields,
});

/** Leave that lasts until a test ends it. */
export class TestPermit implements Permit {
  readonly #controller = new AbortController();

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  check(): void {
    this.signal.throwIfAborted();
  }

  end(reason = new Error("the permit has ended")): void {
    this.#controller.abort(reason);
  }
}
