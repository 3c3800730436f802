import { resolve } from "node:path";

/** Where a scan begins. */
export interface Place {
  /** The path or pattern that says it, by which it is reported. */
  readonly root: string;
  /** The path, or the part of the pattern that is one. */
  readonly base: string;
  /** The names of the pattern below `base`; none when `root` is a path. */
  readonly pattern: readonly string[];
}

/** Stands for any folders, or none, as a name of a pattern. */
export const anyFolders = "**";

/** The place that a path or a pattern says. */
export function placeOf(text: string): Place {
  const root = resolve(text);
  const names = root.split("/");
  const at = names.findIndex((name) => /[*?]/.test(name));
  if (at === -1) return { root, base: root, pattern: [] };
  const pattern = names.slice(at).filter((name, index, all) => name !== anyFolders || all[index - 1] !== anyFolders);
  // A folder stands for all below it anyway.
  while (pattern.at(-1) === anyFolders) pattern.pop();
  return { root, base: names.slice(0, at).join("/") || "/", pattern };
}

/** Whether a path is that of the folder, or of something in it. */
export const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);

/**
 * Whether a name fits a pattern in which * stands for any characters and ? for one. In time linear in each, whatever the
 * pattern: a name may have been chosen to make this slow.
 */
export function fits(name: string, pattern: string): boolean {
  let [at, next] = [0, 0];
  // Behind the last * so far: where its pattern goes on, and what of the name it leaves.
  let [star, rest] = [-1, 0];
  while (at < name.length) {
    if (pattern[next] === "*") {
      next += 1;
      [star, rest] = [next, at];
    } else if (next < pattern.length && (pattern[next] === "?" || pattern[next] === name[at])) {
      at += 1;
      next += 1;
    } else {
      if (star === -1) return false;
      rest += 1;
      [at, next] = [rest, star];
    }
  }
  return /^\**$/.test(pattern.slice(next));
}
