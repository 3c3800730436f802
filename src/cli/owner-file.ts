import { randomUUID } from "node:crypto";
import { lstat, rename, rm, writeFile } from "node:fs/promises";
import { usage } from "./failure.ts";

/** Replaces a file whole, readable by its owner only: who reads finds the old one or the new one. */
export async function writeOwnerFile(file: string, bytes: Uint8Array | string): Promise<void> {
  const place = await OwnerFile.open(file);
  await place.write(bytes);
}

/** A place for a file that only its owner may read, made sure of before there is anything to write. */
export class OwnerFile {
  readonly #file: string;
  readonly #fresh: string;

  private constructor(file: string, fresh: string) {
    this.#file = file;
    this.#fresh = fresh;
  }

  /** Throws a usage Failure where nothing can be written. */
  static async open(file: string): Promise<OwnerFile> {
    const there = await lstat(file).catch(() => undefined);
    if (there?.isFile() === false) throw usage(`${file} is there, and is no file`);
    const fresh = `${file}.${randomUUID()}`;
    await writeFile(fresh, "", { flag: "wx", mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
      throw usage(`cannot write ${file} (${error.code})`);
    });
    return new OwnerFile(file, fresh);
  }

  async write(bytes: Uint8Array | string): Promise<void> {
    try {
      await writeFile(this.#fresh, bytes, { flush: true });
      await rename(this.#fresh, this.#file);
    } catch (error) {
      await this.abandon();
      throw usage(`cannot write ${this.#file} (${(error as NodeJS.ErrnoException).code})`);
    }
  }

  /** Leaves what was there before. */
  abandon(): Promise<void> {
    return rm(this.#fresh, { force: true });
  }
}
