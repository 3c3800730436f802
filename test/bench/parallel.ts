const atATime = 16;

/** Makes so many, a few at a time; resolves to them in the order of their numbers. */
export async function inParallel<T>(count: number, make: (n: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const n = next++;
      made[n] = await make(n);
    }
  };
  await Promise.all(Array.from({ length: atATime }, worker));
  return made;
}
