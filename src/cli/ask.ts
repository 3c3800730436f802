import { buffer } from "node:stream/consumers";
import { usage } from "./failure.ts";

/** Questions go to standard error, so that they never mix with what a command prints. */
const onTerminal = { output: process.stderr };

/** Asks for something that is not shown while it is typed. Without a terminal, `otherWay` says how to give it. */
export async function askHidden(question: string, otherWay: string): Promise<string> {
  if (!process.stdin.isTTY) throw usage(`there is no terminal to ask on: ${otherWay}`);
  const { default: password } = await import("@inquirer/password");
  return password({ message: question }, onTerminal);
}

/** Whether the person at the terminal agrees. Without a terminal, `otherWay` says how to agree. */
export async function askConsent(question: string, otherWay: string): Promise<boolean> {
  if (!process.stdin.isTTY) throw usage(`there is no terminal to ask on: ${otherWay}`);
  const { default: confirm } = await import("@inquirer/confirm");
  return confirm({ message: question, default: false }, onTerminal);
}

/** Everything on standard input. */
export const readStandardInput = (): Promise<Buffer> => buffer(process.stdin);

/** The lines of standard input, which must hold what `names` says, a line each. */
export async function readLines(...names: string[]): Promise<string[]> {
  const lines = (await readStandardInput())
    .toString("utf8")
    .replace(/\r?\n$/, "")
    .split(/\r?\n/);
  if (lines.length !== names.length || lines.includes("")) {
    throw usage(`standard input must hold ${names.join(" and ")}, a line each`);
  }
  return lines;
}
