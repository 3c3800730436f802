import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, lstat, open } from "node:fs/promises";
import { getSystemErrorMessage } from "node:util";

/** What was in a file when it was opened. */
export interface FileContent {
  readonly bytes: Buffer;
  readonly stats: BigIntStats;
  /** The very same file was there after it was read, and nobody had written to it meanwhile. */
  readonly settled: boolean;
}

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;

/**
 * Reads a file, though not much more than `mostBytes` of it; undefined when it is none of its own, as a link, a device
 * or a FIFO, for whose other end this does not wait. Rejects with the error of the system.
 */
export async function readRegularFile(path: string, mostBytes: number): Promise<FileContent | undefined> {
  // Some devices do something when they are merely opened.
  if (!(await lstat(path)).isFile()) return undefined;
  // By now it may be another file, or a link to one.
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const stats = await file.stat({ bigint: true });
    if (!stats.isFile()) return undefined;
    const bytes = await readSome(file, Math.min(Number(stats.size), mostBytes) + 1);
    return { bytes, stats, settled: await isStillThere(path, stats) };
  } finally {
    await file.close();
  }
}

/** Up to so many bytes, fewer when the file ends before. */
async function readSome(file: FileHandle, mostBytes: number): Promise<Buffer> {
  const bytes = Buffer.alloc(mostBytes);
  let length = 0;
  for (let read = 1; read > 0 && length < mostBytes; length += read) {
    read = (await file.read(bytes, length, mostBytes - length)).bytesRead;
  }
  return bytes.subarray(0, length);
}

/** Every write moves the time of change, which no program can set back. */
async function isStillThere(path: string, { dev, ino, size, ctimeNs }: BigIntStats): Promise<boolean> {
  const now = await lstat(path, { bigint: true }).catch(() => undefined);
  return now?.dev === dev && now.ino === ino && now.size === size && now.ctimeNs === ctimeNs;
}

/** In a path as Node gives it: the name has bytes that are no UTF-8, and cannot be opened by what they became. */
const isGarbled = (path = "") => path.includes("\ufffd");

/** Whether there is nothing, or nothing any more, where something was looked for. */
export function isAbsent(error: unknown): boolean {
  const { code, path } = error as NodeJS.ErrnoException;
  return (code === "ENOENT" && !isGarbled(path)) || code === "ENOTDIR";
}

/** A fault of the system in words, without the path. */
export function reasonOf(error: unknown): string {
  const { errno, code, path } = error as NodeJS.ErrnoException;
  if (errno === undefined) throw error;
  if (code === "ENOENT" && isGarbled(path)) return "the name is not UTF-8";
  return `${getSystemErrorMessage(errno)} (${code})`;
}
