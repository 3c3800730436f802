/**
 * What the target of a configuration may have beside the current value of the secret (G-3.2). Whatever happens, it has one
 * of them: so whoever has to log in there with the value that is in use finds it among these.
 */
export interface Candidates {
  /** The value to be; none before the first attempt, and where the target makes the values. */
  readonly candidate: string | undefined;
  /** How often it was handed to whoever applies it. */
  readonly attempts: number;
  /** An attempt ended with nobody knowing whether the target has what it was to bring. */
  readonly unresolved: boolean;
  /** Given up, though the target may have them; the newest first. */
  readonly earlier: readonly string[];
}

const mostAttempts = 3;
const mostEarlier = 5;

/** For the next attempt: the same candidate for three, then one that `make` makes, as long as none has to be forgotten. */
export function handOut(before: Candidates, make: () => string): Candidates & { readonly candidate: string } {
  const { candidate, attempts } = before;
  const isKept = candidate !== undefined && (attempts < mostAttempts || !mayGiveUp(before));
  if (isKept) return { ...before, candidate, attempts: attempts + 1 };
  return { ...giveUp(before), candidate: make(), attempts: 1 };
}

/** For the next attempt at a target that makes the values itself. */
export const handOutNone = (before: Candidates): Candidates => ({ ...giveUp(before), attempts: 1 });

/** Once the settings have changed that candidates are made and applied by. */
export const afterOtherSettings = (before: Candidates): Candidates => (mayGiveUp(before) ? giveUp(before) : before);

/**
 * Once values are brought to another kind of target, or to none: there is nothing to be in doubt of there, but whoever comes
 * back to the one before finds what that may have.
 */
export const afterOtherDriver = (before: Candidates): Candidates => ({ ...giveUp(before), unresolved: false });

const mayGiveUp = ({ unresolved, earlier }: Candidates) => !unresolved || earlier.length < mostEarlier;

function giveUp({ candidate, unresolved, earlier }: Candidates): Candidates {
  const isKept = candidate !== undefined && unresolved;
  return {
    candidate: undefined,
    attempts: 0,
    unresolved,
    earlier: isKept ? [candidate, ...earlier].slice(0, mostEarlier) : earlier,
  };
}
