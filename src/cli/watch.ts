import { setTimeout as pause } from "node:timers/promises";
import { explain } from "./explain.ts";
import { exitCodes } from "./failure.ts";
import { note, print, say } from "./output.ts";

const betweenLooksMs = 2000;

/** Of one look: who watches wants to know soon that nobody answers. */
export const longestLookMs = 5000;

/** What is watched, and how it is apart from what changes all the time. */
export interface State {
  readonly subject: string;
  readonly state: string;
}

/** How something that is watched is shown. */
export interface View<Seen> {
  /** All of it, for a terminal. */
  readonly text: (seen: Seen) => string;
  /** The states of what it is made of, each by what stays the same. */
  readonly states: (seen: Seen) => Map<string, State>;
  /** When it was so, as people read it. */
  readonly time: (seen: Seen) => string;
}

/**
 * Looks every two seconds until it is over, and answers what was seen last: on a terminal all of it in place, elsewhere a
 * line for each state that is another one. Goes on while the server is away, which is when somebody watches.
 */
export async function watch<Seen>(
  first: Seen,
  look: () => Promise<Seen>,
  view: View<Seen>,
  isOver: (seen: Seen) => boolean = () => false,
): Promise<Seen> {
  const display = process.stdout.isTTY ? screen(view) : lines(view);
  let seen = first;
  display.show(seen);
  while (!isOver(seen)) {
    await pause(betweenLooksMs);
    try {
      seen = await look();
      display.show(seen);
    } catch (error) {
      const { lines: why, exitCode } = explain(error);
      if (exitCode !== exitCodes.unavailable) throw error;
      display.away(why[0] ?? "");
    }
  }
  return seen;
}

interface Display<Seen> {
  show(seen: Seen): void;
  /** The server does not answer; what was shown last is what is known. */
  away(why: string): void;
}

/** The whole state in place of the one before. */
function screen<Seen>({ text, time }: View<Seen>): Display<Seen> {
  let last = "";
  const draw = (head: string) => print(inPlace(`${head}\n\n${last}`));
  return {
    show(seen) {
      last = text(seen);
      draw(`${time(seen)}, every ${betweenLooksMs / 1000} s until Ctrl-C`);
    },
    away: (why) => draw(`${why}; this is what was known last`),
  };
}

/** Draws over what is on the screen, which is cleared line by line so that it does not flicker; what is too much is cut. */
function inPlace(text: string): string {
  const [home, restOfLine, restOfScreen] = ["\u001b[H", "\u001b[K", "\u001b[J"];
  const all = text.trimEnd().split("\n");
  // A terminal that does not know its height says 0.
  const room = (process.stdout.rows || Number.POSITIVE_INFINITY) - 1;
  const shown = all.length <= room ? all : [...all.slice(0, room - 1), `(${all.length - room + 1} more lines)`];
  return `${home}${shown.map((line) => `${line}${restOfLine}\n`).join("")}${restOfScreen}`;
}

/** A line for each state that is another one than before. */
function lines<Seen>({ states: statesOf, time }: View<Seen>): Display<Seen> {
  let known = new Map<string, State>();
  let isAway = false;
  return {
    show(seen) {
      if (isAway) note("the server answers again");
      isAway = false;
      const states = statesOf(seen);
      const changed = [...states].filter(([id, { state }]) => state !== known.get(id)?.state).map(([, each]) => each);
      const gone = [...known].filter(([id]) => !states.has(id)).map(([, { subject }]) => ({ subject, state: "gone" }));
      for (const { subject, state } of [...changed, ...gone]) say(`${time(seen)}  ${subject}: ${state}`);
      known = states;
    },
    away(why) {
      if (!isAway) note(`${why}; still trying`);
      isAway = true;
    },
  };
}
