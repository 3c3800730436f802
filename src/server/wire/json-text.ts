import { isUtf8 } from "node:buffer";
import { Refusal } from "../errors.ts";

const deepest = 32;

const unreadable = (message: string) =>
  new Refusal("VALIDATION_ERROR", message, { details: [{ field: "body", message }] });

/** A body as a JSON object; an empty body is {}. Refuses what G-0.8 refuses: bad UTF-8, duplicate keys, deep nesting. */
export function parseJsonObject(body: Buffer): Record<string, unknown> {
  if (body.length === 0) return {};
  if (!isUtf8(body)) throw unreadable("is not UTF-8");
  const text = body.toString("utf8");
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw unreadable("is not well-formed JSON");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw unreadable("must be a JSON object");
  checkStructure(text);
  return parsed as Record<string, unknown>;
}

/** One pass over JSON that is known to be well-formed, for what JSON.parse accepts in silence. */
function checkStructure(text: string): void {
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
        if (keyExpected) checkKey(text.slice(at, end + 1), open.at(-1));
        keyExpected = false;
        at = end;
        break;
      }
      default:
    }
    if (open.length > deepest) throw unreadable(`is nested deeper than ${deepest} levels`);
  }
}

function endOfString(text: string, start: number): number {
  let end = start + 1;
  while (text.charCodeAt(end) !== 0x22) end += text.charCodeAt(end) === 0x5c ? 2 : 1;
  return end;
}

function checkKey(quoted: string, keys: Set<string> | undefined): void {
  const key = quoted.includes("\\") ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
  if (keys?.has(key)) throw unreadable("holds a key twice");
  keys?.add(key);
}
