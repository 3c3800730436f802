import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { ExposedFile, readPrivateFile, writePrivateFile } from "../client/private-file.ts";
import { Failure } from "./failure.ts";

/** What `holdfast login` keeps. */
export interface Credentials {
  /** The server that the token is for: it is shown to no other. */
  readonly url: string;
  readonly token: string;
  /** RFC 3339. */
  readonly expires_at: string;
}

/** In the folder that the XDG Base Directory Specification gives to configuration. */
export function credentialsPath(): string {
  const given = process.env["XDG_CONFIG_HOME"] ?? "";
  return join(isAbsolute(given) ? given : join(homedir(), ".config"), "holdfast", "credentials.json");
}

/** Undefined when nobody is logged in. Throws a Failure for a file that others could have read or replaced. */
export function readCredentials(): Credentials | undefined {
  const path = credentialsPath();
  try {
    const text = readPrivateFile(path);
    return text === undefined ? undefined : (JSON.parse(text) as Credentials);
  } catch (error) {
    if (error instanceof ExposedFile) throw exposed(error);
    if (error instanceof SyntaxError) throw new Failure("authentication", `${path} is damaged; log in again`);
    throw error;
  }
}

const exposed = ({ message, remedy }: ExposedFile) =>
  new Failure("authentication", message, [
    `close it with: ${remedy}`,
    "others may have the token: end it with holdfast logout, and log in again",
  ]);

/** Replaces the file whole, in a folder that nobody else may use: a reader finds the old credentials or the new ones. */
export function writeCredentials(credentials: Credentials): void {
  const path = credentialsPath();
  mkdirSync(dirname(path), { recursive: true });
  chmodSync(dirname(path), 0o700);
  writePrivateFile(path, `${JSON.stringify(credentials, null, 2)}\n`);
}

export function removeCredentials(): void {
  rmSync(credentialsPath(), { force: true });
}
