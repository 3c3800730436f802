import { setTimeout as pause } from "node:timers/promises";
import {
  type GatewayHealth,
  GatewayHealthSchema,
  GatewayService,
} from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import type { Json } from "../commands/options.ts";
import { explain } from "../explain.ts";
import { exitCodes } from "../failure.ts";
import { healthStates, healthText, type State } from "../gateway-health.ts";
import { note, print, printRestRecord, say, timeText } from "../output.ts";
import { openSession } from "../session.ts";

export interface GatewayStatusOptions extends Json {
  readonly watch?: boolean;
}

const betweenLooksMs = 2000;
/** Of one look: who watches wants to know soon that nobody answers. */
const longestLookMs = 5000;

export async function status({ watch, json }: GatewayStatusOptions): Promise<void> {
  if (watch) process.once("SIGINT", () => process.exit(0));
  const gateways = openSession()(GatewayService);
  const look = () => gateways.getGatewayHealth({}, watch ? { timeoutMs: longestLookMs } : {});
  const health = await look();
  if (watch) await keepWatching(look, health);
  else if (json) printRestRecord(GatewayHealthSchema, health);
  else print(healthText(health));
}

/** What is shown of the state of the gateways, for as long as somebody watches. */
interface Display {
  show(health: GatewayHealth): void;
  /** The server does not answer; what was shown last is what is known. */
  away(why: string): void;
}

/** Goes on while the server is away, which is when somebody watches. */
async function keepWatching(look: () => Promise<GatewayHealth>, first: GatewayHealth): Promise<never> {
  const display = process.stdout.isTTY ? screen() : lines();
  display.show(first);
  for (;;) {
    await pause(betweenLooksMs);
    try {
      display.show(await look());
    } catch (error) {
      const { lines: why, exitCode } = explain(error);
      if (exitCode !== exitCodes.unavailable) throw error;
      display.away(why[0] ?? "");
    }
  }
}

/** The whole state in place of the one before. */
function screen(): Display {
  let last = "";
  const draw = (head: string) => print(inPlace(`${head}\n\n${last}`));
  return {
    show(health) {
      last = healthText(health);
      draw(`${timeText(health.generatedAt)}, every ${betweenLooksMs / 1000} s until Ctrl-C`);
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
function lines(): Display {
  let known = new Map<string, State>();
  let isAway = false;
  return {
    show(health) {
      if (isAway) note("the server answers again");
      isAway = false;
      const states = healthStates(health);
      const changed = [...states].filter(([id, { state }]) => state !== known.get(id)?.state).map(([, each]) => each);
      const gone = [...known].filter(([id]) => !states.has(id)).map(([, { subject }]) => ({ subject, state: "gone" }));
      for (const { subject, state } of [...changed, ...gone]) {
        say(`${timeText(health.generatedAt)}  ${subject}: ${state}`);
      }
      known = states;
    },
    away(why) {
      if (!isAway) note(`${why}; still trying`);
      isAway = true;
    },
  };
}
