import { randomUUID } from "node:crypto";
import {
  accessSync,
  closeSync,
  constants,
  fchownSync,
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
import { dirname } from "node:path";

/** A file, or its folder, that others could have read or replaced. */
export class ExposedFile extends Error {
  /** The command that closes it. */
  readonly remedy: string;

  constructor(path: string, fault: string, remedy: string) {
    super(`${path} ${fault}, so it is not used`);
    this.remedy = remedy;
  }
}

/** The text of a file that belongs to one user; undefined when there is none. Throws an ExposedFile. */
export function readPrivateFile(path: string): string | undefined {
  const file = open(path);
  if (file === undefined) return undefined;
  try {
    // The very file that is read: one looked at by its name could be another by then.
    if (fstatSync(file).mode & 0o077) throw new ExposedFile(path, "can be read by other users", `chmod 600 ${path}`);
    checkFolder(dirname(path));
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/**
 * The text of a file that nobody but its user, or root, can change; others may read it. Throws an ExposedFile, and the
 * system's error when it cannot be read.
 */
export function readTrustedFile(path: string): string {
  const file = openSync(path, "r");
  try {
    const { mode, uid } = fstatSync(file);
    if (mode & 0o022) throw new ExposedFile(path, "can be changed by other users", `chmod go-w ${path}`);
    if (uid !== 0 && uid !== process.getuid?.())
      throw new ExposedFile(path, "belongs to another user", `chown root ${path}`);
    checkFolder(dirname(path));
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

function open(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function checkFolder(path: string): void {
  if (statSync(path).mode & 0o022) throw new ExposedFile(path, "can be changed by other users", `chmod 700 ${path}`);
}

/** Makes a folder for private files, unless it is there. Throws an ExposedFile, and the system's error when it may not be written to. */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  checkFolder(path);
  accessSync(path, constants.W_OK);
}

/** Replaces the file whole, readable by its owner only: who reads finds the old text or the new one. Throws an ExposedFile. */
export function writePrivateFile(path: string, text: string): void {
  const folder = dirname(path);
  makePrivateFolder(folder);
  const fresh = `${path}.${randomUUID()}`;
  const file = openSync(fresh, "wx", 0o600);
  try {
    // An administrator writes it for whom the folder belongs to.
    if (process.getuid?.() === 0) fchownSync(file, statSync(folder).uid, statSync(folder).gid);
    writeSync(file, text);
    fsyncSync(file);
    renameSync(fresh, path);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
  syncFolder(folder);
}

/** So that the new name survives a power failure. */
function syncFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
