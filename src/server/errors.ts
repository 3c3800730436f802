import { create } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/ts/google/rpc/error_details_pb.ts";

/** Every error code, with its HTTP status and its gRPC code (gaps G-1.1). REST never uses the generic gRPC table. */
export const errorCodes = {
  AUTH_REQUIRED: { status: 401, rpc: Code.Unauthenticated },
  AUTH_EXPIRED: { status: 401, rpc: Code.Unauthenticated },
  AUTH_INVALID: { status: 401, rpc: Code.Unauthenticated },
  PERMISSION_DENIED: { status: 403, rpc: Code.PermissionDenied },
  CSRF_INVALID: { status: 403, rpc: Code.PermissionDenied },
  LICENSE_EXPIRED: { status: 403, rpc: Code.PermissionDenied },
  VALIDATION_ERROR: { status: 400, rpc: Code.InvalidArgument },
  RESOURCE_NOT_FOUND: { status: 404, rpc: Code.NotFound },
  RESOURCE_CONFLICT: { status: 409, rpc: Code.FailedPrecondition },
  RATE_LIMITED: { status: 429, rpc: Code.ResourceExhausted },
  METHOD_NOT_ALLOWED: { status: 405, rpc: Code.Unimplemented },
  FEATURE_DISABLED: { status: 503, rpc: Code.FailedPrecondition },
  SERVICE_UNAVAILABLE: { status: 503, rpc: Code.Unavailable },
  INTERNAL_ERROR: { status: 500, rpc: Code.Internal },
} as const;

export type ErrorCode = keyof typeof errorCodes;

/** A fault of one field: its dotted path, and what it should be. Never holds the offending value. */
export interface FieldFault {
  readonly field: string;
  readonly message: string;
}

/** In trailers, of which some gRPC clients take no more than 8 KiB. */
const mostViolations = 50;

interface RefusalOptions {
  readonly details?: readonly FieldFault[];
  /** Replaces the gRPC code of the table, for the kinds of conflict that gRPC tells apart. */
  readonly rpc?: Code;
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

/** The one kind of error that leaves the server, in the vocabulary of the specification. */
export class Refusal extends ConnectError {
  readonly errorCode: ErrorCode;
  readonly faults: readonly FieldFault[];
  readonly retryAfterSeconds: number | undefined;

  constructor(errorCode: ErrorCode, message: string, options: RefusalOptions = {}) {
    super(message, options.rpc ?? errorCodes[errorCode].rpc, undefined, undefined, options.cause);
    this.errorCode = errorCode;
    this.faults = options.details ?? [];
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  // ConnectError looks at names, which would make every ConnectError a Refusal.
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && Object.hasOwn(value, "errorCode") && Object.hasOwn(value, "faults");
  }

  get status(): number {
    return errorCodes[this.errorCode].status;
  }

  /** The body of a REST answer (spec, "Errors"). */
  body(requestId: string) {
    return {
      error: { code: this.errorCode, message: this.rawMessage, details: this.faults, request_id: requestId },
    };
  }

  /** Adds what gRPC clients read: google.rpc.ErrorInfo, BadRequest and RetryInfo. */
  describe(requestId: string): this {
    if (this.details.length > 0) return this;
    const info = { reason: this.errorCode, domain: "holdfast", metadata: { request_id: requestId } };
    this.details.push({ desc: ErrorInfoSchema, value: create(ErrorInfoSchema, info) });
    if (this.faults.length > 0) {
      const told = this.faults.slice(0, mostViolations);
      const fieldViolations = told.map(({ field, message }) => ({ field, description: message }));
      this.details.push({ desc: BadRequestSchema, value: create(BadRequestSchema, { fieldViolations }) });
    }
    if (this.retryAfterSeconds !== undefined) {
      const retryDelay = create(DurationSchema, { seconds: BigInt(this.retryAfterSeconds) });
      this.details.push({ desc: RetryInfoSchema, value: create(RetryInfoSchema, { retryDelay }) });
      this.metadata.set("retry-after", String(this.retryAfterSeconds));
    }
    return this;
  }
}

export const authRequired = () => new Refusal("AUTH_REQUIRED", "authentication is required");
export const authExpired = (message = "the token has expired") => new Refusal("AUTH_EXPIRED", message);
export const authInvalid = (message = "the token is invalid") => new Refusal("AUTH_INVALID", message);

/** The message names the missing permission and, where one is concerned, the caller's own project. */
export function permissionDenied(permission: string, projectId?: string): Refusal {
  const where = projectId === undefined ? "" : ` in project ${projectId}`;
  return new Refusal("PERMISSION_DENIED", `permission ${permission} is required${where}`);
}

export const invalid = (details: readonly FieldFault[], message = "Request validation failed") =>
  new Refusal("VALIDATION_ERROR", message, { details });

export const invalidField = (field: string, message: string) => invalid([{ field, message }]);

/** What a path names is not there, or belongs to another organization. */
export const notFound = (what: string) => new Refusal("RESOURCE_NOT_FOUND", `${what} not found`);

/** What a body or query refers to is not there for the caller (G-0.15). */
export const referenceNotFound = (field: string, what: string) =>
  new Refusal("RESOURCE_NOT_FOUND", `${what} not found`, { details: [{ field, message: "does not exist" }] });

export const duplicate = (field: string, message: string) =>
  new Refusal("RESOURCE_CONFLICT", `${field} ${message}`, { details: [{ field, message }], rpc: Code.AlreadyExists });

/** The resource is in a state that does not allow the operation. */
export const wrongState = (message: string) => new Refusal("RESOURCE_CONFLICT", message);

/** A version conflict, or an operation in progress: trying again after a fresh read may succeed. */
export const conflict = (message: string, details: readonly FieldFault[] = []) =>
  new Refusal("RESOURCE_CONFLICT", message, { details, rpc: Code.Aborted });

export const unavailable = (message: string, cause?: unknown) =>
  new Refusal("SERVICE_UNAVAILABLE", message, { retryAfterSeconds: 1, cause });

/** Turns whatever was thrown into a Refusal; what is not one of ours says nothing about its cause. */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof ConnectError) return fromConnect(error);
  if (isDatabaseAway(error)) return unavailable("the database cannot be reached", error);
  if (isUnstorable(error))
    return new Refusal("VALIDATION_ERROR", "a text holds what cannot be stored", { cause: error });
  return new Refusal("INTERNAL_ERROR", "an unexpected error occurred", { cause: error });
}

/** What Connect itself refuses before a method is reached: unreadable messages, unknown methods, deadlines. */
function fromConnect(error: ConnectError): Refusal {
  switch (error.code) {
    case Code.InvalidArgument:
    case Code.OutOfRange:
      return new Refusal("VALIDATION_ERROR", error.rawMessage, { cause: error });
    case Code.ResourceExhausted:
      return new Refusal("VALIDATION_ERROR", error.rawMessage, { rpc: error.code, cause: error });
    case Code.Unimplemented:
      return new Refusal("RESOURCE_NOT_FOUND", error.rawMessage, { rpc: error.code, cause: error });
    case Code.Canceled:
    case Code.DeadlineExceeded:
    case Code.Unavailable:
      return new Refusal("SERVICE_UNAVAILABLE", error.rawMessage, { rpc: error.code, cause: error });
    default:
      return new Refusal("INTERNAL_ERROR", "an unexpected error occurred", { cause: error });
  }
}

/** SQLSTATE classes 08 (connection), 53 (resources), 57P (shutdown), 57014 (time out), 55P03 (lock), 40001 and 40P01. */
const awayStates = /^(08...|53...|57P..|57014|55P03|40001|40P01|25006)$/;
const awayErrors = /ECONNREFUSED|ECONNRESET|ENOENT|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND/;
const awayMessages =
  /Connection terminated|connection lost|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Cannot use a pool after calling end/i;

/** Whether `error`, or what caused it, says that the database cannot be reached or did not answer in time. */
export function isDatabaseAway(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth += 1) {
    const { code } = at as { code?: unknown };
    if (typeof code === "string" && (awayStates.test(code) || awayErrors.test(code))) return true;
    if (awayMessages.test(at.message)) return true;
    if (at instanceof AggregateError && at.errors.some(isDatabaseAway)) return true;
  }
  return false;
}

/** SQLSTATE of text that PostgreSQL cannot hold, such as U+0000 or a lone surrogate. */
function isUnstorable(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === "22021" || code === "22P05" || code === "22P02" || code === "22003";
}

/** Whether `error` is a violation of the unique constraint named `constraint`. */
export function violates(error: unknown, constraint: string): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth += 1) {
    const found = at as { code?: unknown; constraint?: unknown };
    if ((found.code === "23505" || found.code === "23503") && found.constraint === constraint) return true;
  }
  return false;
}
