import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { restJson } from "../client/rest-json.ts";
import { tableText } from "./table.ts";
import { visible } from "./visible.ts";

/** A column of a table: its head, and what it shows of a record. */
export type Column<Row> = readonly [head: string, cell: (row: Row) => string];

/** Writes to standard output exactly what is given. */
export function print(text: string | Uint8Array): void {
  // Whoever reads has had enough, as `head` does.
  if (process.stdout.listenerCount("error") === 0) {
    process.stdout.once("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 141 : 1));
  }
  process.stdout.write(text);
}

/** Prints a sentence for people. */
export const say = (sentence: string): void => print(`${visible(sentence)}\n`);

/** Tells a person something that is not what the command was asked for. */
export const note = (sentence: string): void => void process.stderr.write(`holdfast: ${visible(sentence)}\n`);

/** Prints a credential that is shown once, alone, so that it can be piped; what it is stands on standard error. */
export function printOnce(credential: string | undefined, explanation: string): void {
  note(explanation);
  print(`${credential ?? ""}\n`);
}

/** Prints records as a table, or as an array of what the REST API answers. */
export function printRecords<S extends DescMessage>(
  schema: S,
  records: readonly MessageShape<S>[],
  columns: readonly Column<MessageShape<S>>[],
  { json }: { readonly json?: boolean },
): void {
  if (json) printJson(records.map((record) => restJson(schema, record)));
  else {
    const heads = columns.map(([head]) => head);
    const table = tableText(
      heads,
      records.map((record) => columns.map(([, cell]) => cell(record))),
    );
    print(`${table}\n`);
  }
}

/** Prints a record as the REST API answers it. */
export const printRestRecord = <S extends DescMessage>(schema: S, record: MessageShape<S>): void =>
  printJson(restJson(schema, record));

/** Prints a record line by line, or as the REST API answers it. */
export function printRecord<S extends DescMessage>(
  schema: S,
  record: MessageShape<S>,
  lines: readonly Column<MessageShape<S>>[],
  { json }: { readonly json?: boolean },
): void {
  if (json) printRestRecord(schema, record);
  else {
    const width = Math.max(...lines.map(([head]) => head.length));
    print(lines.map(([head, cell]) => `${head.padEnd(width)}  ${visible(cell(record))}\n`).join(""));
  }
}

/** Control characters that JSON lets stand are written as \u…, which reads the same. */
export function printJson(value: unknown): void {
  const text = JSON.stringify(value, null, 2).replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  print(`${text}\n`);
}

/** A time as people read it, to the second in UTC; a dash when there is none. */
export function timeText(time: Timestamp | undefined): string {
  return time === undefined ? "-" : `${timestampDate(time).toISOString().slice(0, 19)}Z`;
}
