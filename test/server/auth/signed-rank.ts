/**
 * Wilcoxon's signed-rank statistic of the differences within pairs, in standard deviations (normal approximation): near 0
 * when neither side tends to be greater. An outlier counts by its rank, not by its size, and whatever changes slowly
 * touches both sides of a pair alike. Few differences may be 0, or equal to each other.
 */
export function signedRank(differences: readonly number[]): number {
  const ascending = differences.toSorted((a, b) => Math.abs(a) - Math.abs(b));
  const positive = ascending.reduce((sum, difference, index) => (difference > 0 ? sum + index + 1 : sum), 0);
  const n = differences.length;
  const expected = (n * (n + 1)) / 4;
  const variance = (n * (n + 1) * (2 * n + 1)) / 24;
  return (positive - expected) / Math.sqrt(variance);
}
