/** What the exit status of the program says (docs/cli.md); `run` gives the status of the command it ran instead. */
export const exitCodes = {
  unexpected: 1,
  usage: 2,
  authentication: 3,
  permission: 4,
  notFound: 5,
  conflict: 6,
  invalid: 7,
  unavailable: 8,
} as const;

/** Ends a command; the message says in one line what is wrong and what to do, and holds no secret. */
export class Failure extends Error {
  readonly exitCode: number;
  /** Further lines, such as what there is to choose from. */
  readonly details: readonly string[];

  constructor(kind: keyof typeof exitCodes, message: string, details: readonly string[] = []) {
    super(message);
    this.exitCode = exitCodes[kind];
    this.details = details;
  }
}

/** The command cannot be meant as it was typed. */
export const usage = (message: string, details?: readonly string[]) => new Failure("usage", message, details);

export const notFound = (message: string) => new Failure("notFound", message);
