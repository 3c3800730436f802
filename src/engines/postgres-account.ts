import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { EngineError } from "./engine-error.ts";

/** A user that PostgreSQL runs as, other than the one of this process. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
  /** The same for spawn, which wants signed numbers: nobody is -2 on macOS. */
  readonly identity: { readonly uid: number; readonly gid: number };
}

/**
 * Whom PostgreSQL runs as when this process is root, whom it refuses: the owner of the cluster in `folder`, else
 * `postgres`, else `nobody`. Undefined for an ordinary user, who runs it himself. Throws EngineError when there is none.
 */
export function postgresAccount(folder: string): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const found = clusterOwner(folder) ?? userNamed("postgres") ?? userNamed("nobody");
  if (found) return found;
  throw new EngineError(
    "PostgreSQL does not run as root, and there is neither a user postgres nor nobody: " +
      "run as an ordinary user, or set SERVICE_DATABASE_URL",
  );
}

/** Throws EngineError with the first folder on the way to `folder` that the account may not pass. */
export function checkPassable(folder: string, account: Account): void {
  const way = [folder];
  while (way[0] !== undefined && way[0] !== "/") way.unshift(dirname(way[0]));
  const check = 'for folder; do [ -x "$folder" ] || { printf %s "$folder"; exit 1; }; done';
  const { status, stdout, error } = spawnSync("/bin/sh", ["-c", check, "sh", ...way], {
    ...account.identity,
    cwd: "/",
    encoding: "utf8",
  });
  if (status === 0) return;
  throw new EngineError(
    error
      ? `this root may not run PostgreSQL as user ${account.uid} (${error.message}): run as an ordinary user`
      : `user ${account.uid}, who runs PostgreSQL for root, may not pass ${stdout}: ` +
          "move the data with SERVICE_DATA_DIR, or run as an ordinary user",
  );
}

function clusterOwner(folder: string): Account | undefined {
  try {
    const cluster = readdirSync(folder).find((name) => /^\d+$/.test(name));
    if (cluster === undefined) return undefined;
    const { uid, gid } = statSync(join(folder, cluster));
    return uid === 0 ? undefined : account(uid, gid);
  } catch {
    return undefined;
  }
}

function userNamed(name: string): Account | undefined {
  const id = (flag: string) =>
    Number(execFileSync("id", [flag, name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  try {
    return account(id("-u"), id("-g"));
  } catch {
    return undefined;
  }
}

function account(uid: number, gid: number): Account {
  return { uid, gid, identity: { uid: uid | 0, gid: gid | 0 } };
}
