import { type ErrorCode, errorCodes } from "../server/errors.ts";
import { type HeaderName, referToHeaders } from "./headers.ts";
import type { Schema } from "./rules.ts";

/** All but 405, which no route answers that is in the document. */
const names = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  429: "TooManyRequests",
  500: "InternalError",
  503: "Unavailable",
} as const satisfies Readonly<Record<Exclude<(typeof errorCodes)[ErrorCode]["status"], 405>, string>>;

export type RefusalStatus = keyof typeof names;

const ownHeaders: Readonly<Partial<Record<RefusalStatus, readonly HeaderName[]>>> = {
  401: ["WWW-Authenticate"],
  429: ["Retry-After"],
  503: ["Retry-After"],
};

/** The body of every error, as the specification has it. */
export const errorSchema: Schema = {
  type: "object",
  description: "Error is the body of every refusal.",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["code", "message", "details", "request_id"],
      properties: {
        code: { type: "string", description: "code says what went wrong.", enum: Object.keys(errorCodes) },
        message: { type: "string", description: "message says it to people; it may change." },
        details: {
          type: "array",
          description: "details name the fields at fault.",
          items: {
            type: "object",
            required: ["field", "message"],
            properties: {
              field: {
                type: "string",
                description: "field is a dotted path, as in rotation.interval_days, tags[3] or header.If-Match.",
              },
              message: { type: "string", description: "message says what the field should be." },
            },
          },
        },
        request_id: { type: "string", description: "request_id is the X-Request-Id of the answer." },
      },
    },
  },
};

/** The error answers, collected while operations refer to them. */
export class Refusals {
  readonly #components = new Map<string, Schema>();

  /** The components in the order of their names. */
  get components(): Record<string, Schema> {
    return Object.fromEntries([...this.#components].sort(([one], [other]) => (one < other ? -1 : 1)));
  }

  /** A reference to the answer of a status; the answers of methods without a limit lack the headers of the limit. */
  refer(status: RefusalStatus, common: readonly HeaderName[], limited: boolean): Schema {
    const name = limited ? names[status] : `${names[status]}Unlimited`;
    const codes = Object.entries(errorCodes).flatMap(([code, each]) => (each.status === status ? [code] : []));
    this.#components.set(name, {
      description: codes.join(", "),
      headers: referToHeaders([...common, ...(ownHeaders[status] ?? [])]),
      content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
    });
    return { $ref: `#/components/responses/${name}` };
  }
}
