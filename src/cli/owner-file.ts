import { randomUUID } from "node:crypto";
import { type FileHandle, lstat, open, rename, rm } from "node:fs/promises";
import { usage } from "./failure.ts";

/** Replaces a file whole, readable by its owner only: who reads finds the old one or the new one. */
export async function writeOwnerFile(file: string, bytes: Uint8Array | string): Promise<void> {
  await using place = await OwnerFile.replace(file);
  await place.write(bytes);
}

/**
 * A place for a file that only its owner may read, made sure of before there is anything to write. Disposed of before it
 * is written, it leaves what was there before.
 */
export class OwnerFile implements AsyncDisposable {
  readonly #file: string;
  readonly #fresh: string;
  readonly #handle: FileHandle;

  private constructor(file: string, fresh: string, handle: FileHandle) {
    this.#file = file;
    this.#fresh = fresh;
    this.#handle = handle;
  }

  /** In the place of a file that is there, if any. Throws a usage Failure where nothing can be written. */
  static async replace(file: string): Promise<OwnerFile> {
    const there = await lstat(file).catch(() => undefined);
    if (there?.isFile() === false) throw usage(`${file} is there, and is no file`);
    const fresh = `${file}.${randomUUID()}`;
    const handle = await open(fresh, "wx", 0o600).catch((error: NodeJS.ErrnoException) => {
      throw usage(`cannot write ${file} (${error.code})`);
    });
    return new OwnerFile(file, fresh, handle);
  }

  /** Where there is nothing yet. Throws a usage Failure likewise, and where there is something; `otherWay` says what to do. */
  static async create(file: string, otherWay: string): Promise<OwnerFile> {
    const isThere = await lstat(file).then(
      () => true,
      () => false,
    );
    if (isThere) throw usage(`${file} is there already: ${otherWay}`);
    return OwnerFile.replace(file);
  }

  async write(bytes: Uint8Array | string): Promise<void> {
    try {
      await this.#handle.writeFile(bytes);
      await this.#handle.sync();
      await rename(this.#fresh, this.#file);
    } catch (error) {
      throw usage(`cannot write ${this.#file} (${(error as NodeJS.ErrnoException).code})`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
    // Gone when it was written: it has the file's name.
    await rm(this.#fresh, { force: true });
  }
}
