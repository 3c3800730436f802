import { realpath } from "node:fs/promises";
import { isAbsent, readRegularFile, reasonOf } from "./regular-file.ts";
import type { ScanError } from "./scan.ts";

const largestFile = 1024 * 1024;

/** The text of a file of the host's configuration; empty when there is none, or, which is an error, none to be read. */
export async function configurationText(path: string, errors: ScanError[]): Promise<string> {
  const read = async () => readRegularFile(await realpath(path), largestFile);
  return (await attempt(path, read, errors))?.bytes.toString("utf8") ?? "";
}

/** What is read at a path; undefined when there is nothing, or it cannot be read, which is an error. */
export async function attempt<T>(path: string, read: () => Promise<T>, errors: ScanError[]): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!isAbsent(error)) errors.push({ path, reason: reasonOf(error) });
    return undefined;
  }
}
