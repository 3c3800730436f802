import { InvalidArgumentError, Option } from "commander";

/** A whole number from 1 on. */
export function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError("It must be a whole number from 1 on.");
  return Number(text);
}

/** A moment of RFC 3339. */
export function instant(text: string): Date {
  const time = new Date(/^\d{4}-\d\d-\d\dT\d\d:\d\d.*(Z|[+-]\d\d:\d\d)$/i.test(text) ? text : Number.NaN);
  if (Number.isNaN(time.getTime())) throw new InvalidArgumentError("It must be a time as in 2027-01-31T12:00:00Z.");
  return time;
}

/** Words separated by commas; the option may be given more than once. */
export const words = (text: string, earlier: readonly string[] = []): string[] => [
  ...earlier,
  ...text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== ""),
];

/** Texts that may hold commas; the option may be given more than once. */
export const each = (text: string, earlier: readonly string[] = []): string[] => [...earlier, text];

export const projectOption = () =>
  new Option("-p, --project <project>", "name or id of the project; HOLDFAST_PROJECT_ID unless given");

export const environmentOption = () => new Option("-e, --env <environment>", "environment, compared exactly");

export const jsonOption = () => new Option("--json", "print what the REST API answers");

export const yesOption = () => new Option("-y, --yes", "do not ask");

export const examples = (...lines: string[]) => `\nExamples:\n${lines.map((line) => `  $ ${line}\n`).join("")}`;

export interface Json {
  readonly json?: boolean;
}
