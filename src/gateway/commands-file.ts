import { isAbsolute } from "node:path";
import { z } from "zod";
import { readTrustedFile } from "../client/private-file.ts";
import { SettingError } from "../client/program.ts";

/** A command that tasks may name: what is run, never by a shell, and what its environment holds beside PATH. */
export interface Command {
  readonly argv: readonly [string, ...string[]];
  readonly environment: Readonly<Record<string, string>>;
}

const text = z.string().regex(/^[^\0]*$/, "must not hold a NUL");
const Commands = z.record(
  z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "must be 1 to 63 lower-case letters, digits, - or _"),
  z.strictObject({
    argv: z.tuple([text.refine(isAbsolute, "must be an absolute path")], text),
    environment: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), text).default({}),
  }),
);

/** The commands that whoever runs the gateway allows, by name. Throws an ExposedFile, or a SettingError that says what is wrong. */
export function readCommands(path: string): ReadonlyMap<string, Command> {
  const found = Commands.safeParse(parse(path, textOf(path)));
  if (found.success) return new Map(Object.entries(found.data));
  const faults = found.error.issues.map(({ path: at, message }) => `${at.join(".") || "it"}: ${message}`);
  throw new SettingError(`SERVICE_GATEWAY_COMMANDS_FILE: ${faults.join("; ")}`);
}

function textOf(path: string): string {
  try {
    return readTrustedFile(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new SettingError(`SERVICE_GATEWAY_COMMANDS_FILE: cannot read ${path} (${code})`);
  }
}

function parse(path: string, json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw new SettingError(`SERVICE_GATEWAY_COMMANDS_FILE: ${path} is not JSON`);
  }
}
