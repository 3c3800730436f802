import { randomFrom } from "../../harness/random.ts";
import type { Receiver } from "../../harness/receiver.ts";
import { answers, breaksOff, type Trouble } from "../../harness/trouble.ts";

/** How a place behaves: it takes a value and confirms it, or not. */
export type Mood = "up" | "slow" | "down" | "forgetful" | "busy";

const troubles: Readonly<Record<Mood, Trouble | undefined>> = {
  up: undefined,
  slow: undefined,
  down: answers(503),
  // It has taken the value, and the answer gets lost.
  forgetful: breaksOff({ done: true }),
  busy: answers(429, "", { "retry-after": "60" }),
};

/** What a place that may be moody holds, by path. */
export class Place {
  mood: Mood = "up";
  readonly #receiver: Receiver;
  /** What it has and has confirmed, by path. */
  readonly held = new Map<string, string>();
  readonly confirmed = new Map<string, number>();

  constructor(receiver: Receiver) {
    this.#receiver = receiver;
    receiver.behave(async ({ path, body }) => {
      const { mood } = this;
      if (mood === "slow") await new Promise((resolve) => setTimeout(resolve, 30));
      if (mood === "up" || mood === "slow" || mood === "forgetful") this.held.set(path, body.value);
      if (troubles[mood] === undefined) this.confirmed.set(path, body.version);
      return troubles[mood];
    });
  }

  get confirms(): boolean {
    return troubles[this.mood] === undefined;
  }

  /** At one path there is never more than one attempt at a time. */
  get mostAtOnce(): number {
    return this.#receiver.mostAtOnce;
  }
}

/** What is to be true of a link and its secret, by what was done to them. */
export class LinkModel {
  readonly values = ["v1"];
  secret: "active" | "archived" | "deleted" = "active";
  enabled = true;
  path = "/a";
  /** Something was to be written, or tried again, since it last came to rest. */
  due = true;
  status = "pending";

  get version(): number {
    return this.values.length;
  }

  get value(): string {
    return this.values.at(-1) ?? "";
  }

  /** The state that it comes to rest in, given how the place behaves meanwhile. */
  settle(confirms: boolean): void {
    if (this.secret !== "active" || !this.enabled) this.status = "disabled";
    else if (this.due) this.status = confirms ? "synced" : "failed";
    this.due = false;
  }
}

/** One of these, by a seed. */
export function chooser(seed: number): <Choice>(choices: readonly Choice[]) => Choice {
  const random = randomFrom(seed);
  return (choices) => choices[Math.floor(random() * choices.length)] as never;
}
