import type { JsonObject } from "@bufbuild/protobuf";
import type { z } from "zod";
import { type FieldFault, invalid, invalidField } from "../errors.ts";

/** What the schema makes of what was given. Throws VALIDATION_ERROR naming each fault by its path below `field`. */
export function checked<Value>(schema: z.ZodType<Value>, given: unknown, field: string): Value {
  const { success, data, error } = schema.safeParse(given);
  if (success) return data;
  throw invalid(error.issues.flatMap((issue) => faultsOf(issue, field)));
}

/** Refuses more JSON than may be kept. */
export function checkSize(json: JsonObject, field: string, mostBytes: number): void {
  if (Buffer.byteLength(JSON.stringify(json)) > mostBytes) {
    throw invalidField(field, `must be at most ${mostBytes} bytes as JSON`);
  }
}

function faultsOf(issue: z.core.$ZodIssue, field: string): FieldFault[] {
  const path = [field, ...issue.path.map(String)].join(".");
  if (issue.code !== "unrecognized_keys") return [{ field: path, message: demandOf(issue) }];
  return issue.keys.map((key) => ({ field: `${path}.${key}`, message: "is not known here" }));
}

/** What an issue demands, in our words; never what was given. */
function demandOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined ? "is required" : `must be ${articled[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `must be one of ${issue.values.join(", ")}`;
    case "too_small":
      return issue.origin === "string"
        ? `must have at least ${issue.minimum} characters`
        : `must be at least ${issue.minimum}`;
    case "too_big":
      return issue.origin === "string"
        ? `must have at most ${issue.maximum} characters`
        : `must be at most ${issue.maximum}`;
    case "invalid_key":
      return "is not a usable name";
    default:
      return issue.message;
  }
}

const articled: Readonly<Record<string, string>> = {
  string: "a text",
  int: "an integer",
  number: "a number",
  object: "an object",
  record: "an object",
};
