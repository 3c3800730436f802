/** What a figure has to reach. */
export interface Target {
  readonly text: string;
  met(figure: number): boolean;
}

export const atLeast = (least: number): Target => ({
  text: `>= ${least.toFixed(2)}`,
  met: (figure) => figure >= least,
});
export const atMost = (most: number): Target => ({ text: `<= ${most}`, met: (figure) => figure <= most });
export const within = (share: number): Target => ({
  text: `${(1 - share).toFixed(2)} to ${(1 + share).toFixed(2)}`,
  met: (figure) => Math.abs(figure - 1) <= share,
});

/** One line of the table. What is left out is shown empty. */
export interface Line {
  readonly scenario: string;
  readonly connections?: number;
  /** The figure that counts: a ratio, unless `unit` says otherwise. */
  readonly figure: number;
  readonly unit?: string;
  readonly target?: Target | undefined;
  readonly ours?: number;
  readonly against?: string;
  readonly theirs?: number;
  readonly p50?: number;
  readonly p99?: number;
  readonly serverMicros?: number;
  readonly clientMicros?: number;
}

const columns: readonly [title: string, cell: (line: Line) => string][] = [
  ["scenario", ({ scenario }) => scenario],
  ["conns", ({ connections }) => String(connections ?? "")],
  ["ours/s", ({ ours }) => ours?.toFixed(0) ?? ""],
  ["against", ({ against = "" }) => against],
  ["theirs/s", ({ theirs }) => theirs?.toFixed(0) ?? ""],
  ["ratio", ({ figure, unit }) => (unit === undefined ? figure.toFixed(2) : `${shortened(figure)} ${unit}`)],
  ["target", ({ target }) => target?.text ?? ""],
  ["p50 ms", ({ p50 }) => p50?.toFixed(2) ?? ""],
  ["p99 ms", ({ p99 }) => p99?.toFixed(2) ?? ""],
  ["server us", ({ serverMicros }) => micros(serverMicros)],
  ["client us", ({ clientMicros }) => micros(clientMicros)],
  ["", ({ figure, target }) => (target === undefined ? "" : target.met(figure) ? "pass" : "short")],
];

const shortened = (figure: number) => figure.toFixed(figure < 10 && !Number.isInteger(figure) ? 2 : 0);

function micros(figure: number | undefined): string {
  return figure === undefined || Number.isNaN(figure) ? "" : figure.toFixed(figure < 10 ? 1 : 0);
}

/** The lines as a table of Markdown, which is also easy to read in a terminal. */
export function tableOf(lines: readonly Line[]): string {
  const cells = [columns.map(([title]) => title), ...lines.map((line) => columns.map(([, cell]) => cell(line)))];
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => row[at]?.length ?? 0)));
  const isText = (at: number) => at === 0 || at === 3 || at === 6 || at === 11;
  const pad = (text: string, at: number) =>
    isText(at) ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0);
  const rule = widths.map((width, at) => (isText(at) ? "-".repeat(width) : `${"-".repeat(Math.max(0, width - 1))}:`));
  const [head = [], ...body] = cells.map((row) => row.map(pad));
  return [head, rule, ...body].map((row) => `| ${row.join(" | ")} |`).join("\n");
}
