import { createHash } from "node:crypto";
import { chownSync, lstatSync, mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EngineError } from "./engine-error.ts";
import type { Account } from "./postgres-account.ts";

// sun_path has 104 bytes on macOS and 108 on Linux, one of them for the final zero.
const LONGEST_PATH = 103;
// What no client has to escape: PostgreSQL splits at commas, URLs have their own ideas about %, ? and #.
const PLAIN = /^[\w./+-]+$/;

/**
 * The folder for a socket of the engine in `folder`: its own `run`, or one in the temporary folder, named by a hash of
 * `folder`, when the path would be too long for a socket or not plain enough for a URL. Only `account` (else this
 * process) may enter it. Throws EngineError when the folder belongs to somebody else.
 */
export function makeSocketFolder(folder: string, socketName: string, account?: Account): string {
  const own = join(folder, "run");
  const path = fits(join(own, socketName)) ? own : join(temporary(), `holdfast-${hash(folder)}`);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
  const found = lstatSync(path);
  const owner = account?.uid ?? process.getuid?.();
  const ours = found.uid === owner || found.uid === process.getuid?.();
  if (!found.isDirectory() || !ours || found.mode & 0o077) {
    throw new EngineError(`${path}, meant for sockets, is not a private folder of user ${owner}; have it removed`);
  }
  if (account && found.uid !== account.uid) chownSync(path, account.uid, account.gid);
  return path;
}

/** Removes a socket folder that lies in the temporary folder, where it would stay for ever. */
export function removeSocketFolder(path: string, folder: string): void {
  if (!path.startsWith(folder)) rmSync(path, { recursive: true, force: true });
}

function fits(socket: string): boolean {
  return Buffer.byteLength(socket) <= LONGEST_PATH && PLAIN.test(socket);
}

function temporary(): string {
  return PLAIN.test(tmpdir()) && tmpdir().length <= 50 ? tmpdir() : "/tmp";
}

function hash(folder: string): string {
  return createHash("sha256").update(folder).digest("hex").slice(0, 16);
}
