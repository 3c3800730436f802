import { styleText } from "node:util";
import Table from "cli-table3";
import { visible } from "./visible.ts";

const gap = "  ";
const borders = ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right"];
const rules = ["left", "left-mid", "mid", "mid-mid", "right", "right-mid"];
const chars = { ...Object.fromEntries([...borders, ...rules].map((name) => [name, ""])), middle: gap };

/** Rows as a table without borders; on a terminal its widest columns are wrapped until the table fits. */
export function tableText(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const shown = rows.map((row) => row.map(visible));
  const natural = layOut(heads, shown);
  // A terminal that does not know its width says 0.
  const columns = (process.stdout.isTTY && process.stdout.columns) || Number.POSITIVE_INFINITY;
  const widths = fitted(natural.widths, heads, columns - gap.length * (heads.length - 1));
  const { text } = widths === natural.widths ? natural : layOut(heads, shown, widths);
  return text.replace(/ +$/gm, "").replace(/^.*/, (line) => styleText("bold", line));
}

function layOut(heads: readonly string[], rows: readonly string[][], widths: readonly number[] = []) {
  const table = new Table({
    head: [...heads],
    chars,
    style: { "padding-left": 0, "padding-right": 0, head: [], border: [] },
    colWidths: [...widths],
    wordWrap: widths.length > 0,
    wrapOnWordBoundary: false,
  });
  table.push(...rows);
  const text = table.toString();
  // Laying out fills in the widths that were not given.
  return { text, widths: table.options.colWidths.map(Number) };
}

/** Takes from the widest columns what is too much, though never from a head; the same widths when nothing is. */
function fitted(widths: readonly number[], heads: readonly string[], room: number): readonly number[] {
  const fitting = [...widths];
  for (let excess = sum(widths) - room; excess > 0; excess -= 1) {
    const spare = fitting.map((width, at) => (width > (heads[at] ?? "").length ? width : 0));
    const widest = spare.indexOf(Math.max(...spare));
    if (spare[widest] === 0) break;
    fitting[widest] = (fitting[widest] ?? 0) - 1;
  }
  return sum(fitting) === sum(widths) ? widths : fitting;
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
