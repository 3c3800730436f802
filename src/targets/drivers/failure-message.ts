import type { Assignment } from "./driver.ts";

const replacement = "[redacted]";
const longest = 1000;

/**
 * Why something failed, as it may be told and logged: in one line of at most 1000 characters, without what is secret of the
 * assignment, in the ways in which programs write it.
 */
export function failureMessage(message: string, assignment: Assignment): string {
  const line = withoutSecrets(message, assignment)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .trim();
  return [...line].slice(0, longest).join("") || "no reason was given";
}

function withoutSecrets(text: string, assignment: Assignment): string {
  return secretsOf(assignment)
    .flatMap(spellings)
    .sort((one, other) => other.length - one.length)
    .reduce((rest, secret) => rest.replaceAll(secret, replacement), text);
}

/** Also each line of a text of several: a message may hold one of them. */
function secretsOf({ value, previousValue, earlierCandidates, credentials }: Assignment): string[] {
  const texts = [value, previousValue ?? "", ...earlierCandidates, ...leavesOf(credentials)];
  const lines = texts.flatMap((text) => text.split(/\r?\n/));
  return [...new Set([...texts, ...texts.map((text) => text.trim()), ...lines])].filter((text) => text !== "");
}

function leavesOf(value: unknown): string[] {
  if (typeof value === "string" || typeof value === "number") return [String(value)];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(leavesOf) : [];
}

function spellings(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const encoded = (["base64", "base64url", "hex"] as const).map((encoding) => bytes.toString(encoding));
  return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret.toWellFormed()), ...encoded];
}
