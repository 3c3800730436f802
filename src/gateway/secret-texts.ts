import type { Assignment } from "../../gen/ts/holdfast/gateways/v1/gateway_link_service_pb.ts";

const replacement = "[redacted]";

/** A text without what is secret of an assignment, in the ways in which programs write it. */
export function withoutSecrets(text: string, assignment: Assignment): string {
  return secretsOf(assignment)
    .flatMap(spellings)
    .sort((one, other) => other.length - one.length)
    .reduce((rest, secret) => rest.replaceAll(secret, replacement), text);
}

/** Also each line of a text of several: a message may hold one of them. */
function secretsOf({ value, previousValue, credentials }: Assignment): string[] {
  const texts = [value, previousValue ?? "", ...leavesOf(credentials)];
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
