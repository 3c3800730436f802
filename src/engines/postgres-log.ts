import { closeSync, existsSync, fstatSync, openSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { EngineError } from "./engine-error.ts";

const KEEP_BYTES = 10 << 20;

/** Where PostgreSQL writes. A file, because a full pipe blocks a server and a dead reader breaks it. */
export interface ServerLog {
  readonly fd: number;
  /** The present end, from which `explain` and `since` read. */
  mark(): number;
  since(mark: number): string;
  /** An EngineError for what happened, with the last line that tells why. */
  explain(what: string, mark: number): EngineError;
  close(): void;
}

/** Opens `postgres.log` in `folder`; a large one becomes `postgres.log.1`. */
export function openServerLog(folder: string): ServerLog {
  const path = join(folder, "postgres.log");
  if (existsSync(path) && statSync(path).size > KEEP_BYTES) renameSync(path, `${path}.1`);
  const fd = openSync(path, "a", 0o600);
  const since = (mark: number) => readFileSync(path).subarray(mark).toString();
  return {
    fd,
    mark: () => fstatSync(fd).size,
    since,
    explain: (what, mark) => {
      const tail = since(mark);
      if (tail.includes("No space left on device")) {
        return new EngineError(
          `${what}: no space is left on the disk of ${folder}; free some, or set SERVICE_DATA_DIR`,
        );
      }
      const lines = tail.split("\n").filter((line) => line.trim() !== "");
      const telling =
        lines.findLast((line) => /ERROR|FATAL|PANIC|error/.test(line)) ?? lines.at(-1) ?? "it said nothing";
      return new EngineError(`${what}: ${telling.trim()}; see ${path}`);
    },
    close: () => closeSync(fd),
  };
}
