import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";

const errors = {
  INTERNAL_ERROR: { status: 500, message: "an unexpected error occurred" },
  METHOD_NOT_ALLOWED: { status: 405, message: "the method is not allowed here" },
  RATE_LIMITED: { status: 429, message: "too many requests" },
  RESOURCE_NOT_FOUND: { status: 404, message: "path not found" },
  SERVICE_UNAVAILABLE: { status: 503, message: "not available at the moment" },
} as const;

/** Sends an error in the shape that all of the service's errors have. */
export function sendError(
  response: ServerResponse,
  code: keyof typeof errors,
  headers: Readonly<Record<string, string | number>> = {},
): void {
  const { status, message } = errors[code];
  const requestId = randomUUID();
  const body = { error: { code, message, details: [], request_id: requestId } };
  sendJson(response, status, body, { ...headers, "x-request-id": requestId });
}

/** Sends what is true of this moment only. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string | number>> = {},
): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...headers,
  });
  response.end(text);
}
