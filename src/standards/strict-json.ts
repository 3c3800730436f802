const deepest = 32;

/**
 * What JSON.parse accepts in silence although it can be read in two ways, or by nobody: a key twice (RFC 8259 section 4),
 * deep nesting. In words that go after what the text is called; undefined when there is nothing of it. One pass over JSON
 * that is known to be well-formed.
 */
export function structureFault(text: string): string | undefined {
  /** The keys seen in each open object, undefined for an open array. */
  const open: (Set<string> | undefined)[] = [];
  let keyExpected = false;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
        open.push(new Set());
        keyExpected = true;
        break;
      case 0x5b: // [
        open.push(undefined);
        keyExpected = false;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        open.pop();
        keyExpected = false;
        break;
      case 0x2c: // ,
        keyExpected = open.at(-1) !== undefined;
        break;
      case 0x22: {
        const end = endOfString(text, at);
        if (keyExpected && isSeen(text.slice(at, end + 1), open.at(-1))) return "holds a key twice";
        keyExpected = false;
        at = end;
        break;
      }
      default:
    }
    if (open.length > deepest) return `is nested deeper than ${deepest} levels`;
  }
  return undefined;
}

function endOfString(text: string, start: number): number {
  let end = start + 1;
  while (text.charCodeAt(end) !== 0x22) end += text.charCodeAt(end) === 0x5c ? 2 : 1;
  return end;
}

function isSeen(quoted: string, keys: Set<string> | undefined): boolean {
  const key = quoted.includes("\\") ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
  const seen = keys?.has(key) === true;
  keys?.add(key);
  return seen;
}
