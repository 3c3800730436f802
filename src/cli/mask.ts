/** The mask of an update: the fields that were given, so that an empty text or list clears. */
export function maskOf(given: Readonly<Record<string, unknown>>): { paths: string[] } {
  const names = Object.keys(given).filter((name) => given[name] !== undefined);
  return { paths: names.map((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)) };
}
