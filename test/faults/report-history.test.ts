import { expect } from "chai";
import { type FoundRow, ReportHistory, type SentPart } from "./report-history.ts";

/** A part of a scan of one host, of files whose hash is their path's first letter and the scan's number. */
const part = (scan: number, paths: string, fields: Partial<SentPart> = {}): SentPart => ({
  agentId: "agent",
  scanId: `scan ${scan}`,
  files: new Map([...paths].map((path) => [path, `${path}${scan}`])),
  complete: false,
  answered: true,
  ...fields,
});

/** A row, as in "a1", or "a1!" when it is stale. */
const row = (text: string): FoundRow => ({
  agent_id: "agent",
  file_path: text.slice(0, 1),
  keytab_hash: text.slice(0, 2),
  stale: text.endsWith("!"),
});

function contradictionsOf(parts: readonly SentPart[], rows: readonly string[]): string[] {
  const history = new ReportHistory();
  for (const each of parts) history.add(each);
  return history.contradictions(rows.map(row));
}

const whole = [part(1, "a"), part(1, "b", { complete: true })];

describe("The history of reports", () => {
  const sound: Readonly<Record<string, readonly [SentPart[], string[]]>> = {
    "a complete scan": [whole, ["a1", "b1"]],
    "a file that the next complete scan has not seen": [
      [...whole, part(2, "a", { complete: true })],
      ["a2", "b1!"],
    ],
    "a scan that was cut off": [
      [...whole, part(2, "a")],
      ["a2", "b1"],
    ],
    "a part without an answer that was stored": [
      [...whole, part(2, "a", { answered: false })],
      ["a2", "b1"],
    ],
    "a part without an answer that was not stored": [
      [...whole, part(2, "a", { answered: false })],
      ["a1", "b1"],
    ],
    "a last part without an answer that was stored": [
      [...whole, part(2, "a", { complete: true, answered: false })],
      ["a2", "b1!"],
    ],
    "a file that came back": [
      [...whole, part(2, "a", { complete: true }), part(3, "b")],
      ["a2", "b3"],
    ],
    "a file that is gone for long": [
      [...whole, part(2, "a", { complete: true }), part(3, "a", { complete: true })],
      ["a3", "b1!"],
    ],
  };
  for (const [what, [parts, rows]] of Object.entries(sound)) {
    it(`agrees with ${what}`, () => {
      expect(contradictionsOf(parts, rows)).to.deep.equal([]);
    });
  }

  const unsound: Readonly<Record<string, readonly [SentPart[], string[]]>> = {
    "a file that became stale by a scan that was cut off": [
      [...whole, part(2, "a")],
      ["a2", "b1!"],
    ],
    "a file that is gone and does not become stale": [
      [...whole, part(2, "a", { complete: true })],
      ["a2", "b1"],
    ],
    "a file that was seen and is stale": [whole, ["a1", "b1!"]],
    "a file that was lost": [whole, ["a1"]],
    "a file that was never reported": [whole, ["a1", "b1", "c1"]],
    "an answered part that was not stored": [
      [...whole, part(2, "a")],
      ["a1", "b1"],
    ],
    "a complete scan after which a part without an answer still counts": [
      [...whole, part(2, "a", { answered: false }), part(3, "ab", { complete: true })],
      ["a2", "b3"],
    ],
  };
  for (const [what, [parts, rows]] of Object.entries(unsound)) {
    it(`contradicts ${what}`, () => {
      expect(contradictionsOf(parts, rows)).to.have.length(1);
    });
  }
});
