import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/ts/google/rpc/error_details_pb.ts";
import { UnprovenServer } from "../client/login.ts";
import { IllegalParameter } from "../standards/srp.ts";
import { exitCodes, Failure } from "./failure.ts";
import { visible } from "./visible.ts";

/** What is told on standard error, line by line, and the exit status that goes with it. */
export interface Explanation {
  readonly lines: readonly string[];
  readonly exitCode: number;
}

const reasons: Readonly<Record<string, keyof typeof exitCodes>> = {
  AUTH_REQUIRED: "authentication",
  AUTH_EXPIRED: "authentication",
  AUTH_INVALID: "authentication",
  PERMISSION_DENIED: "permission",
  LICENSE_EXPIRED: "permission",
  VALIDATION_ERROR: "invalid",
  RESOURCE_NOT_FOUND: "notFound",
  RESOURCE_CONFLICT: "conflict",
  RATE_LIMITED: "unavailable",
  FEATURE_DISABLED: "unavailable",
  SERVICE_UNAVAILABLE: "unavailable",
};

/** Says to a person why a command failed. */
export function explain(error: unknown): Explanation {
  if (error instanceof Failure)
    return { lines: [...error.message.split("\n"), ...error.details].map(visible), exitCode: error.exitCode };
  if (error instanceof ConnectError) return explainRefusal(error) ?? explainConnection(error);
  if (error instanceof UnprovenServer || error instanceof IllegalParameter) {
    const lines = [error.message, "it may not be the server that it should be; nothing was kept"];
    return { lines, exitCode: exitCodes.authentication };
  }
  if (error instanceof Error && error.name === "ExitPromptError") return { lines: ["interrupted"], exitCode: 130 };
  if (isSystemError(error)) return { lines: [visible(error.message)], exitCode: exitCodes.unexpected };
  return { lines: [String((error as Error).stack ?? error)], exitCode: exitCodes.unexpected };
}

/**
 * Adds where to look to an answer that did not come: what was asked for may have been done, or be done still, and is not
 * asked for twice.
 */
export async function orElseLook<Answer>(answer: Promise<Answer>, whereToLook: string): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    const { lines, exitCode } = explain(error);
    if (exitCode !== exitCodes.unavailable) throw error;
    throw new Failure("unavailable", lines.join("\n"), [whereToLook]);
  }
}

/** What the server says of itself; undefined when it was no Holdfast that answered. */
function explainRefusal(error: ConnectError): Explanation | undefined {
  const [info] = error.findDetails(ErrorInfoSchema);
  if (info === undefined) return undefined;
  const kind = reasons[info.reason] ?? "unexpected";
  const violations = error.findDetails(BadRequestSchema).flatMap(({ fieldViolations }) => fieldViolations);
  const lines = [error.rawMessage, ...violations.map(({ field, description }) => `${field} ${description}`)];
  if (info.reason === "RATE_LIMITED") lines.push(`try again in ${error.metadata.get("retry-after") ?? 60} s`);
  if (info.reason === "AUTH_EXPIRED") lines.push("log in again with: holdfast login");
  const { request_id: requestId } = info.metadata;
  if (requestId !== undefined) lines.push(`request id: ${requestId}`);
  return { lines: lines.map(visible), exitCode: exitCodes[kind] };
}

/** Codes that Connect gives to what happens on the way, and to what a proxy answers. */
const passing: readonly Code[] = [Code.Unavailable, Code.DeadlineExceeded, Code.ResourceExhausted, Code.Aborted];

function explainConnection(error: ConnectError): Explanation {
  const cause = rootCause(error);
  const fault = visible(cause instanceof ConnectError ? cause.rawMessage : cause.message);
  const { code } = cause as { code?: unknown };
  if (typeof code === "string" && /CERT|SELF_SIGNED|VERIFY|ISSUER/.test(code)) {
    const advice = "for a private certificate authority set HOLDFAST_CA_FILE";
    return { lines: [`the server's certificate is not trusted: ${fault}`, advice], exitCode: exitCodes.unavailable };
  }
  if (typeof code === "string" || passing.includes(error.code)) {
    return { lines: [`the server cannot be reached: ${fault}`], exitCode: exitCodes.unavailable };
  }
  return { lines: [`the answer is not that of a Holdfast server: ${fault}`], exitCode: exitCodes.unexpected };
}

function rootCause(error: Error): Error {
  let at = error;
  while (at.cause instanceof Error && at.cause !== at) at = at.cause;
  return at instanceof AggregateError && at.errors[0] instanceof Error ? at.errors[0] : at;
}

const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === "string";
