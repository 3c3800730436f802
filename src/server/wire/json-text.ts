import { isUtf8 } from "node:buffer";
import { structureFault } from "../../standards/strict-json.ts";
import { Refusal } from "../errors.ts";

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
  const fault = structureFault(text);
  if (fault !== undefined) throw unreadable(fault);
  return parsed as Record<string, unknown>;
}
