import { readFileSync } from "node:fs";
import { SettingError } from "./program.ts";

/** Variables named SERVICE_…, of which an empty one counts as unset; what is wrong with them is told all at once. */
export class Variables {
  readonly #environment: NodeJS.ProcessEnv;
  readonly #faults: string[] = [];

  constructor(environment: NodeJS.ProcessEnv) {
    this.#environment = environment;
  }

  text(name: string): string | undefined {
    return this.#environment[`SERVICE_${name}`]?.trim() || undefined;
  }

  /** The setting as `parse` understands it; not at all is a fault, of which `rule` says what it should be. */
  read<T>(name: string, fallback: T, rule: string, parse: (given: string) => T | undefined): T {
    const given = this.text(name);
    if (given === undefined) return fallback;
    const value = parse(given);
    if (value === undefined) this.fault(`SERVICE_${name}: ${rule}`);
    return value ?? fallback;
  }

  /** A whole number within bounds. */
  number(name: string, fallback: number, { min, max }: { readonly min: number; readonly max: number }): number {
    return this.read(name, fallback, `must be a whole number from ${min} to ${max}`, (text) => {
      const value = Number(text);
      return Number.isInteger(value) && value >= min && value <= max ? value : undefined;
    });
  }

  /** Notes those of the settings that there must be, and are not set. */
  require(...names: string[]): void {
    for (const name of names) if (this.text(name) === undefined) this.fault(`SERVICE_${name}: must be set`);
  }

  /** Notes what is wrong; the text names the setting, and does not hold its value. */
  fault(text: string): void {
    this.#faults.push(text);
  }

  /** Throws a SettingError that names everything that is wrong. */
  check(): void {
    if (this.#faults.length > 0) throw new SettingError(this.#faults.join("; "));
  }
}

/** The items of a text that are separated by commas. */
export const listOf = (text: string): string[] =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");

/** The text of a file; undefined when it cannot be read. */
export function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
