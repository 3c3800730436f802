import { randomInt } from "node:crypto";

const digits = "0123456789";
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** What values are made of. The symbols need no quoting in a double-quoted text of a shell, in JSON, or in SQL. */
export const charsets = {
  alphanumeric: letters + digits,
  alphanumeric_symbols: `${letters}${digits}#%&()*+,-./:;<=>?@[]^_{|}~`,
  hex: "0123456789abcdef",
  base64url: `${letters}${digits}-_`,
  digits,
} as const;

export type Charset = keyof typeof charsets;

export const charsetNames = Object.keys(charsets) as [Charset, ...Charset[]];

/** How a value is made. */
export interface Generation {
  /** In characters. */
  readonly length: number;
  readonly charset: Charset;
  /** What must not occur, each character by itself. */
  readonly excludeCharacters: string;
}

/** The characters that a value may have. */
export const alphabetOf = ({ charset, excludeCharacters }: Omit<Generation, "length">): string[] =>
  [...charsets[charset]].filter((character) => !excludeCharacters.includes(character));

/** A new random value: each character is drawn by itself, all of them equally likely. The alphabet must not be empty. */
export function generateValue(generation: Generation): string {
  const alphabet = alphabetOf(generation);
  return Array.from({ length: generation.length }, () => alphabet[randomInt(alphabet.length)]).join("");
}
