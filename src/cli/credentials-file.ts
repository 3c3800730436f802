import { randomUUID } from "node:crypto";
import {
  chmodSync,
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
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
  const file = open(path);
  if (file === undefined) return undefined;
  try {
    // The very file that is read: one looked at by its name could be another by then.
    if (fstatSync(file).mode & 0o077) throw exposed(path, "can be read by other users", `chmod 600 ${path}`);
    if (statSync(dirname(path)).mode & 0o022)
      throw exposed(dirname(path), "can be changed by other users", `chmod 700 ${dirname(path)}`);
    return JSON.parse(readFileSync(file, "utf8")) as Credentials;
  } catch (error) {
    if (error instanceof SyntaxError) throw new Failure("authentication", `${path} is damaged; log in again`);
    throw error;
  } finally {
    closeSync(file);
  }
}

const exposed = (path: string, fault: string, remedy: string) =>
  new Failure("authentication", `${path} ${fault}, so it is not used`, [
    `close it with: ${remedy}`,
    "others may have the token: end it with holdfast logout, and log in again",
  ]);

function open(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Replaces the file whole: a reader finds the old credentials or the new ones. */
export function writeCredentials(credentials: Credentials): void {
  const path = credentialsPath();
  mkdirSync(dirname(path), { recursive: true });
  chmodSync(dirname(path), 0o700);
  const fresh = `${path}.${randomUUID()}`;
  const file = openSync(fresh, "wx", 0o600);
  try {
    writeSync(file, `${JSON.stringify(credentials, null, 2)}\n`);
    fsyncSync(file);
    renameSync(fresh, path);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

export function removeCredentials(): void {
  rmSync(credentialsPath(), { force: true });
}
