/** How long after each failure of a streak, one after the other; the last holds for all that follow (G-3.3). */
const minutes = [1, 5, 15, 60];

/** SQL for how long to wait after so many failures in a row, within ten percent: those that failed together spread. */
export const waitAfter = (failures: string): string =>
  `make_interval(secs => 60 * (0.9 + 0.2 * random()) * (array[${minutes.join()}])[least(${failures}, ${minutes.length})])`;
