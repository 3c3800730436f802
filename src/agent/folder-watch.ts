import { type FSWatcher, watch } from "node:fs";
import { basename, join } from "node:path";

/**
 * Hears of a path that has come, gone or got another name ("rename"), or the content or attributes of which have changed
 * ("change").
 */
type OnChange = (path: string, event: "rename" | "change") => void;

/** Watches folders, without those within them (inotify, on Linux). */
export class FolderWatch {
  readonly #onChange: OnChange;
  readonly #onFault: (folder: string, error: NodeJS.ErrnoException) => void;
  readonly #watchers = new Map<string, FSWatcher>();

  /** `onFault` hears of a folder that cannot be watched. */
  constructor(onChange: OnChange, onFault: (folder: string, error: NodeJS.ErrnoException) => void) {
    this.#onChange = onChange;
    this.#onFault = onFault;
  }

  /** Watches these folders and no others. True when some were not watched before, so that changes may have been missed. */
  update(folders: readonly string[]): boolean {
    const wanted = new Set(folders);
    for (const folder of this.#watchers.keys()) if (!wanted.has(folder)) this.#drop(folder);
    const added = [...wanted].filter((folder) => !this.#watchers.has(folder));
    return added.filter((folder) => this.#add(folder)).length > 0;
  }

  close(): void {
    this.update([]);
  }

  #add(folder: string): boolean {
    try {
      const watcher = watch(folder, { persistent: false }, (event, name) => {
        // What is said of the folder itself: it may be another one by now.
        if (event === "rename" && name === basename(folder)) this.#drop(folder);
        this.#onChange(join(folder, name ?? ""), event);
      });
      watcher.on("error", (error) => {
        this.#drop(folder);
        this.#onFault(folder, error);
      });
      this.#watchers.set(folder, watcher);
      return true;
    } catch (error) {
      this.#onFault(folder, error as NodeJS.ErrnoException);
      return false;
    }
  }

  #drop(folder: string): void {
    this.#watchers.get(folder)?.close();
    this.#watchers.delete(folder);
  }
}
