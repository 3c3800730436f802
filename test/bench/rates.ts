import { median } from "./subjects.ts";

/** Does something and resolves to how often. */
type Work = () => Promise<number>;

/** Two that take turns: each once to warm up, then so many rounds, of which the medians count. */
export async function inTurns(ours: Work, theirs: Work, rounds: number) {
  await rateOf(ours);
  await rateOf(theirs);
  const rates: { ours: number; theirs: number }[] = [];
  for (let round = 0; round < rounds; round += 1)
    rates.push({ ours: await rateOf(ours), theirs: await rateOf(theirs) });
  return {
    figure: median(rates.map((round) => round.ours / round.theirs)),
    ours: median(rates.map((round) => round.ours)),
    theirs: median(rates.map((round) => round.theirs)),
  };
}

/** In a second. */
async function rateOf(work: Work): Promise<number> {
  const beganAt = performance.now();
  const count = await work();
  return (count / (performance.now() - beganAt)) * 1000;
}
