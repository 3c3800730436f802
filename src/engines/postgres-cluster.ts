import { randomBytes } from "node:crypto";
import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { EngineError } from "./engine-error.ts";
import type { Account } from "./postgres-account.ts";
import type { Binaries } from "./postgres-binaries.ts";
import type { ServerLog } from "./postgres-log.ts";
import { spawnWatched } from "./watched-process.ts";

/** A database cluster on disk, and the password of its superuser `service`. */
export interface Cluster {
  readonly data: string;
  readonly password: string;
}

/** Finds the cluster in `folder`, or makes it. Throws EngineError for one of another version or without its password. */
export async function findOrCreateCluster(
  folder: string,
  { initdb, major }: Binaries,
  log: ServerLog,
  account?: Account,
): Promise<Cluster> {
  // What a first start that was killed has left; its initdb may be at the end of its life still.
  for (const name of readdirSync(folder)) {
    if (name.startsWith("init-")) rmSync(join(folder, name), { recursive: true, force: true, maxRetries: 5 });
  }
  const data = join(folder, major);
  const secret = join(folder, "superuser.secret");
  if (existsSync(join(data, "PG_VERSION"))) {
    if (existsSync(secret)) return { data, password: readFileSync(secret, "utf8").trim() };
    throw new EngineError(`${secret} is missing, and without it ${data} cannot be opened; restore it from a backup`);
  }
  const other = readdirSync(folder).find((name) => /^\d+$/.test(name) && name !== major);
  if (other) {
    throw new EngineError(
      `${folder} holds data of PostgreSQL ${other}, and this is PostgreSQL ${major}: ` +
        "dump it with the release that wrote it, or set SERVICE_DATA_DIR to a new folder",
    );
  }
  const password = existsSync(secret) ? readFileSync(secret, "utf8").trim() : newPassword(secret);
  await create(folder, data, initdb, password, log, account);
  return { data, password };
}

/** Makes the cluster under another name first: a first start that is killed leaves no half of one. */
async function create(
  folder: string,
  data: string,
  initdb: string,
  password: string,
  log: ServerLog,
  account?: Account,
): Promise<void> {
  const scratch = mkdtempSync(join(folder, "init-"));
  const passwordFile = join(scratch, "password");
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (account) for (const path of [passwordFile, scratch]) chownSync(path, account.uid, account.gid);

  const from = log.mark();
  const options = ["-D", join(scratch, "data"), "-U", "service", `--pwfile=${passwordFile}`, "--auth=scram-sha-256"];
  // The builtin provider sorts alike on every machine; ICU and the C library do not.
  options.push("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C");
  const run = spawnWatched(initdb, [...options, "--no-instructions"], log.fd, account);
  const how = await run.ended;
  if (how !== "exit code 0") throw log.explain(`initdb ended (${how})`, from);

  renameSync(join(scratch, "data"), data);
  rmSync(scratch, { recursive: true, force: true });
  const handle = openSync(folder, "r");
  fsyncSync(handle);
  closeSync(handle);
}

function newPassword(secret: string): string {
  const password = randomBytes(24).toString("base64url");
  writeFileSync(`${secret}.new`, password, { mode: 0o600, flush: true });
  renameSync(`${secret}.new`, secret);
  return password;
}
