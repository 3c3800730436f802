import type { Schema } from "./rules.ts";

const text = { type: "string" };
const count = { type: "integer", minimum: 0 };

/** Every header that an answer may carry. */
export const headers = {
  "X-Request-Id": { description: "The id of this request, also in the audit log.", schema: text },
  "X-RateLimit-Limit": { description: "Requests that are allowed in a minute.", schema: count },
  "X-RateLimit-Remaining": { description: "Requests that are left in this minute.", schema: count },
  "X-RateLimit-Reset": { description: "When the minute ends, in Unix seconds.", schema: count },
  "X-Total-Count": { description: "The number of items on all pages.", schema: count },
  "X-Page": { description: "The page, counting from 1.", schema: count },
  "X-Per-Page": { description: "The size of a full page.", schema: count },
  "Retry-After": { description: "Seconds after which another try may succeed.", schema: count },
  "WWW-Authenticate": { description: "The way to authenticate: Bearer.", schema: text },
  "Idempotency-Replayed": {
    description: "true when this is the outcome of an earlier request with the same Idempotency-Key.",
    schema: { type: "string", const: "true" },
  },
  ETag: {
    description: 'The version of the record, as in "3"; of a file, its SHA-256 in hexadecimal digits.',
    schema: text,
  },
  "Content-Disposition": { description: "The name to save the file under.", schema: text },
  Location: { description: "The path of what was created.", schema: { type: "string", format: "uri-reference" } },
} as const satisfies Readonly<Record<string, Schema>>;

export type HeaderName = keyof typeof headers;

/** References to headers, for the answer that carries them. */
export function referToHeaders(names: readonly HeaderName[]): Schema {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** Headers that a request may carry, by the names of their components. */
export const requestHeaders = {
  IdempotencyKey: {
    name: "Idempotency-Key",
    in: "header",
    description:
      "A request that is sent again under the same key within 24 hours is answered with the first outcome and does nothing.",
    schema: { type: "string", pattern: "^[!-~]{1,255}$" },
  },
  IfMatch: {
    name: "If-Match",
    in: "header",
    description: 'Refuses the change unless this is the current version, as in "3". The same as expected_version.',
    schema: text,
  },
  IfNoneMatch: {
    name: "If-None-Match",
    in: "header",
    description: 'Answers 304, and shows nothing, while this is the current version, as in "3".',
    schema: text,
  },
} as const satisfies Readonly<Record<string, Schema>>;

export type RequestHeaderName = keyof typeof requestHeaders;
