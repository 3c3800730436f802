/** Control characters, invisible format characters such as those that turn the writing direction, and lone surrogates. */
const invisible = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Text from the server as it may stand on a terminal: what would move the cursor, or hide, is shown as \u{…}. */
export function visible(text: string): string {
  return text.replace(invisible, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}
