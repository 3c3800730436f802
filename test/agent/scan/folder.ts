import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** A new folder for each test of the surrounding `describe`, removed after it. */
export class Folder {
  path = "";

  /** Writes a file, with the folders that it is in, and answers its path. */
  write(name: string, content: string | Uint8Array, mode = 0o600): string {
    const path = this.at(name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content, { mode });
    return path;
  }

  at(name: string): string {
    return join(this.path, name);
  }
}

export function useFolder(): Folder {
  const folder = new Folder();
  beforeEach(() => {
    folder.path = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-scan-")));
  });
  afterEach(() => rmSync(folder.path, { recursive: true, force: true }));
  return folder;
}
