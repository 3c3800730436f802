import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { EngineError } from "./engine-error.ts";

const BUSY = 5;
// Two that try at the same moment see each other on the way to the lock; with no patience both would give up.
const PATIENCE_MS = 100;

/** Another process has the folder. */
export class FolderInUse extends EngineError {}

/** A folder that no other process uses until it is released. */
export interface FolderHold {
  release(): void;
}

/**
 * Holds `folder` for this process. The lock is SQLite's, so it is the kernel's: it ends with the process however that
 * ends, no reused pid can keep it, and it is seen from another container. Throws FolderInUse, naming the process, when
 * the folder is held.
 */
export function holdFolder(folder: string): FolderHold {
  const pidFile = join(folder, "owner.pid");
  const lockFile = join(folder, "owner.lock");
  const lock = new DatabaseSync(lockFile, { timeout: PATIENCE_MS });
  chmodSync(lockFile, 0o600);
  try {
    lock.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    if (!(error instanceof Error && "errcode" in error && error.errcode === BUSY)) {
      throw new EngineError(`${folder} cannot be locked (${String(error)}); set SERVICE_DATA_DIR to another folder`);
    }
    throw new FolderInUse(
      `${folder} is already in use by ${holder(pidFile)}; stop it, or set SERVICE_DATA_DIR / SERVICE_DATABASE_URL`,
    );
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  return {
    release: () => {
      if (!lock.isOpen) return;
      rmSync(pidFile, { force: true });
      lock.close();
    },
  };
}

function holder(pidFile: string): string {
  try {
    return `process ${Number.parseInt(readFileSync(pidFile, "utf8"), 10)}`;
  } catch {
    return "another process";
  }
}
