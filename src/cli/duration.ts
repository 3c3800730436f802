/** A length of time, as precise as people want it. */
export function durationText(seconds: number): string {
  if (!Number.isFinite(seconds)) return "some time";
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
