import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { askHidden, readStandardInput } from "./ask.ts";
import { usage } from "./failure.ts";

const waysToGive = "give it on standard input, at the prompt, or with --file";

/** A value among the arguments has been seen already: this says so, and repeats nothing of it. */
export function refuseValuesInArguments(key: string, values: readonly string[], option: unknown): void {
  if (values.length === 0 && option === undefined && !key.includes("=")) return;
  throw usage("a value does not belong on the command line", [
    "everybody on this machine can see it there, and the shell keeps it in its history",
    waysToGive,
    "if it is in use, change it: consider it known",
  ]);
}

/** The value of a secret, exactly as it is in the file or on standard input; without either, a hidden prompt. */
export async function readValue(file: string | undefined): Promise<string> {
  if (file === undefined && process.stdin.isTTY) return askHidden("Value:", waysToGive);
  const bytes = file === undefined ? await readStandardInput() : await readNamed(file);
  if (file === undefined && bytes.length === 0) {
    throw usage("standard input is empty", ["an empty value is set with --file /dev/null"]);
  }
  if (!isUtf8(bytes)) throw usage("the value is not UTF-8 text; encode it first, as with base64");
  return bytes.toString("utf8");
}

function readNamed(file: string): Promise<Buffer> {
  return readFile(file).catch((error: NodeJS.ErrnoException) => {
    throw usage(`cannot read ${file} (${error.code})`);
  });
}
