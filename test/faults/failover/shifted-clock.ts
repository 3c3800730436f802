/**
 * Preloaded into a process, shifts its clock, by up to an hour and to somewhere else at each SIGUSR2. What measures time
 * by the monotonic clock goes on as before.
 */
const mostMs = 3_600_000;
let shiftMs = 0;
process.on("SIGUSR2", () => {
  shiftMs = Math.round((Math.random() * 2 - 1) * mostMs);
});

const trueNow = Date.now.bind(Date);
const now = () => trueNow() + shiftMs;
globalThis.Date = new Proxy(Date, {
  construct: (target, given, newTarget) => Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget),
  get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
});
