import { accessSync, chmodSync, chownSync, constants, mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { EngineError } from "./engine-error.ts";
import type { Account } from "./postgres-account.ts";

/**
 * Makes `folder` where it is missing, closes it to other users, and answers its real path. A guest, which only root
 * has, may pass through it but not list it. Throws EngineError for a folder that belongs to another user or that is
 * shared by design, and errors of the file system.
 */
export function makePrivateFolder(folder: string, guest?: Account): string {
  const path = resolve(folder);
  // Folders above it keep the usual mode: made 0700 by root they would lock PostgreSQL's user out.
  mkdirSync(dirname(path), { recursive: true });
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const { uid, gid, mode } = statSync(path);
  if (uid !== process.getuid?.()) {
    throw new EngineError(
      `${path} belongs to user ${uid}, and this process is user ${process.getuid?.()}: ` +
        "run as that user, or set SERVICE_DATA_DIR to another folder, which may be a new one inside it",
    );
  }
  if (mode & 0o1000 || path === "/") {
    throw new EngineError(`${path} is shared with other users; set SERVICE_DATA_DIR to a new folder inside it`);
  }
  if (guest && gid !== guest.gid) chownSync(path, uid, guest.gid);
  const wanted = guest ? 0o710 : 0o700;
  if ((mode & 0o7777) !== wanted) chmodSync(path, wanted);
  accessSync(path, constants.W_OK | constants.X_OK);
  return realpathSync(path);
}
