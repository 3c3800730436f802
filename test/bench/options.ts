import { availableParallelism } from "node:os";
import { Command, InvalidArgumentError } from "commander";

const parts = [
  "read",
  "grpc",
  "list",
  "create",
  "login",
  "identities",
  "verify",
  "rewrap",
  "scale",
  "keytabs",
  "agents",
  "gateways",
  "rotations",
  "links",
  "certificates",
  "crl",
  "start",
  "memory",
] as const;

/** What can be measured by itself. */
export type Part = (typeof parts)[number];

/** How long and how often to measure. */
export interface Effort {
  readonly rounds: number;
  readonly connections: readonly number[];
  /** Before a scenario's first round, for each server in it. */
  readonly warmUpMs: number;
  /** At the head of each round, not counted. */
  readonly rampMs: number;
  readonly measureMs: number;
  /** Secrets in the large database of part "scale". */
  readonly manySecrets: number;
  /** In the audit log that part "verify" reads. */
  readonly auditEvents: number;
  /** That part "rewrap" wraps by another master key. */
  readonly organizationKeys: number;
  /** In the database of part "keytabs", and as many files on hosts. */
  readonly manyKeytabs: number;
  /** For which parts "agents" and "gateways" watch a thousand of them. */
  readonly fleetMs: number;
  /** Of part "gateways". */
  readonly failovers: number;
  /** Due at once in part "rotations". */
  readonly dueRotations: number;
  /** Due at once in part "links". */
  readonly dueLinks: number;
  /** Of values, one at a time, in part "links". */
  readonly changes: number;
  /** Certificates on the list of part "crl". */
  readonly revoked: number;
}

export interface Options {
  readonly parts: ReadonlySet<Part>;
  readonly effort: Effort;
  readonly profile: boolean;
}

/** Reads the command line; ends the process for --help and for what cannot be read. */
export function readOptions(argv: readonly string[]): Options {
  const program = new Command("npm run bench --")
    .description(
      "Measures a server of its own against floors: small node:http servers that do only what cannot be left out.\n" +
        `Takes about twenty-five minutes on two cores (this machine has ${availableParallelism()}) and starts all it needs.`,
    )
    .option("--quick", "one short round of each, without the million secrets")
    .option("--only <parts>", `only these, separated by commas: ${parts.join(", ")}`, readParts)
    .option("--rounds <n>", "rounds of each, of which the median counts", positive)
    .option("--seconds <n>", "length of a round", positive)
    .option("--connections <list>", "connections, separated by commas (1,16,64)", (text) =>
      text.split(",").map(positive),
    )
    .option("--profile", "where the server's time goes, for the parts named by --only (read), instead of ratios")
    .parse(argv, { from: "user" });
  const given = program.opts<{
    quick?: true;
    only?: Part[];
    rounds?: number;
    seconds?: number;
    connections?: number[];
    profile?: true;
  }>();
  const usual = parts.filter((part) => given.quick === undefined || part !== "scale");
  const effort = {
    rounds: given.rounds ?? (given.quick ? 1 : 3),
    connections: given.connections ?? [1, 16, 64],
    warmUpMs: given.quick ? 500 : 1000,
    rampMs: given.quick ? 150 : 250,
    measureMs: (given.seconds ?? (given.quick ? 0.7 : 2)) * 1000,
    manySecrets: given.quick ? 50_000 : 1_000_000,
    auditEvents: given.quick ? 20_000 : 200_000,
    organizationKeys: given.quick ? 2000 : 20_000,
    manyKeytabs: given.quick ? 10_000 : 100_000,
    fleetMs: given.quick ? 20_000 : 90_000,
    failovers: given.quick ? 20 : 200,
    dueRotations: given.quick ? 200 : 1000,
    dueLinks: given.quick ? 200 : 1000,
    changes: given.quick ? 30 : 300,
    revoked: given.quick ? 50_000 : 1_000_000,
  };
  const profile = given.profile === true;
  return { parts: new Set(given.only ?? (profile ? ["read"] : usual)), effort, profile };
}

function readParts(text: string): Part[] {
  const given = text.split(",").map((part) => part.trim());
  const unknown = given.find((part) => !(parts as readonly string[]).includes(part));
  if (unknown !== undefined) throw new InvalidArgumentError(`${unknown} is not one of ${parts.join(", ")}`);
  return given as Part[];
}

function positive(text: string): number {
  const number = Number(text);
  if (!(number > 0 && number <= 1000)) throw new InvalidArgumentError("must be a number from 1 to 1000");
  return number;
}
