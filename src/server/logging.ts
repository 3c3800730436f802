import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import { isFieldSet } from "@bufbuild/protobuf";
import { type Logger, pino } from "pino";

export type { Logger };

/** Names that never reach the log with their value, at any depth a log line of ours has. */
const secretNames = [
  "authorization",
  "cookie",
  "value",
  "client_secret",
  "clientSecret",
  "access_token",
  "accessToken",
  "password",
  "token",
  "enrollment_token",
  "enrollmentToken",
  "verifier",
  "set-cookie",
];

/** The server's log: JSON lines on standard output. What is secret is redacted by name here, and by `redact` in messages. */
export function createLogger(level: string, destination?: NodeJS.WritableStream): Logger {
  const paths = secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`, `*["${name}"]`]);
  return pino(
    {
      level,
      base: { pid: process.pid },
      redact: { paths, censor: "[redacted]" },
      serializers: { err: describeError, error: describeError },
      timestamp: pino.stdTimeFunctions.isoTime,
    },
    destination ?? pino.destination({ sync: false, minLength: 0 }),
  );
}

/** An error without the texts that may hold values: statements, parameters, and PostgreSQL's `detail`. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: "not an Error" };
  const { code, constraint } = error as { code?: unknown; constraint?: unknown };
  const fromDatabase = typeof code === "string" && /^[0-9A-Z]{5}$/.test(code);
  const message = fromDatabase ? `database error ${code}` : error.message;
  const frames = error.stack?.split("\n").filter((line) => line.startsWith("    at ")) ?? [];
  return {
    type: error.name,
    message,
    code,
    constraint,
    stack: frames.join("\n"),
    cause: error.cause === undefined ? undefined : describeError(error.cause),
  };
}

/** Whether a message holds a field marked debug_redact. */
export function showsSecret(schema: DescMessage, message: Message): boolean {
  return schema.fields.some((field) => {
    if (!isFieldSet(message, field)) return false;
    const found = valueOf(message, field);
    if (field.proto.options?.debugRedact === true) return true;
    if (field.fieldKind === "message") return showsSecret(field.message, found as Message);
    if (field.fieldKind !== "list" || field.listKind !== "message") return false;
    return (found as Message[]).some((item) => showsSecret(field.message, item));
  });
}

/** A message as plain values for the log, with every field marked debug_redact replaced. */
export function redact(schema: DescMessage, message: Message): Record<string, unknown> {
  const plain: Record<string, unknown> = {};
  for (const field of schema.fields) {
    if (!isFieldSet(message, field)) continue;
    const found = valueOf(message, field);
    if (field.proto.options?.debugRedact) plain[field.name] = "[redacted]";
    else if (field.fieldKind === "message" && !field.message.typeName.startsWith("google.protobuf.")) {
      plain[field.name] = redact(field.message, found as Message);
    } else if (field.fieldKind === "list" && field.listKind === "message") {
      plain[field.name] = (found as Message[]).map((item) => redact(field.message, item));
    } else if (field.fieldKind === "message") plain[field.name] = "[message]";
    else plain[field.name] = typeof found === "bigint" ? found.toString() : found;
  }
  return plain;
}

/** The value of a field that is set; one of a oneof stands under the name of that. */
function valueOf(message: Message, { localName, oneof }: DescField): unknown {
  const plain = message as unknown as Record<string, unknown>;
  return oneof === undefined ? plain[localName] : (plain[oneof.localName] as { value: unknown }).value;
}
