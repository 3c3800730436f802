import { Presets, SingleBar } from "cli-progress";
import { durationText } from "./duration.ts";
import { note } from "./output.ts";

/** How far a long piece of work is. */
export interface Standing {
  readonly phase: string;
  readonly done: number;
  readonly total: number;
  readonly perSecond: number;
  readonly secondsLeft: number;
}

/** Shows the progress of long work on standard error. */
export interface ProgressDisplay {
  readonly show: (standing: Standing) => void;
  readonly end: () => void;
}

const linesApartMs = 5000;

/** A bar on a terminal, a line every five seconds elsewhere. */
export function progressDisplay(): ProgressDisplay {
  return process.stderr.isTTY ? bar() : lines();
}

function bar(): ProgressDisplay {
  const single = new SingleBar(
    {
      format: "{phase} {bar} {value} of {total}, {pace}",
      hideCursor: true,
      clearOnComplete: true,
      gracefulExit: false,
    },
    Presets.shades_classic,
  );
  let phase = "";
  return {
    show(standing) {
      const payload = { phase: standing.phase, pace: paceOf(standing) };
      if (standing.phase !== phase) {
        if (single.isActive) single.stop();
        single.start(standing.total, standing.done, payload);
      }
      phase = standing.phase;
      single.setTotal(standing.total);
      single.update(standing.done, payload);
    },
    end: () => single.stop(),
  };
}

function lines(): ProgressDisplay {
  let last = performance.now();
  return {
    show(standing) {
      if (performance.now() - last < linesApartMs) return;
      last = performance.now();
      note(`${standing.phase}: ${standing.done} of ${standing.total}, ${paceOf(standing)}`);
    },
    end: () => {},
  };
}

const paceOf = ({ perSecond, secondsLeft }: Standing) =>
  `${Math.round(perSecond)} a second, ${durationText(secondsLeft)} left`;
