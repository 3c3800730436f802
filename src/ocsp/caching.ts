import type { IncomingMessage } from "node:http";

/** What a cache may know of a document. */
export interface Edition {
  /** Hexadecimal digits that no other edition has. */
  readonly sha256: string;
  readonly lastModified?: Date;
  /** Until when it is true. */
  readonly expires: Date;
  /** How long a cache may keep it at most. */
  readonly maxAgeSeconds: number;
}

/** A cache gives a document up a second before its end. */
const marginSeconds = 1;

/** The headers with which caches may keep a document (RFC 9919), also those of a 304. */
export function cacheHeaders({ sha256, lastModified, expires, maxAgeSeconds }: Edition): Record<string, string> {
  const leftSeconds = Math.floor((expires.getTime() - Date.now()) / 1000) - marginSeconds;
  const maxAge = Math.max(0, Math.min(maxAgeSeconds, leftSeconds));
  return {
    "cache-control": `max-age=${maxAge}, public, no-transform, must-revalidate`,
    etag: `"${sha256}"`,
    ...(lastModified === undefined ? {} : { "last-modified": lastModified.toUTCString() }),
    expires: expires.toUTCString(),
  };
}

/** Whether the client has this edition already (RFC 9110 section 13.2.2). */
export function isKnown(
  { method, headers }: IncomingMessage,
  { sha256, lastModified }: Pick<Edition, "lastModified" | "sha256">,
): boolean {
  if (method !== "GET" && method !== "HEAD") return false;
  const tags = headers["if-none-match"];
  if (tags !== undefined) {
    return tags.split(",").some((tag) => tag.trim() === "*" || tag.trim().replace(/^W\//, "") === `"${sha256}"`);
  }
  const since = Date.parse(headers["if-modified-since"] ?? "");
  // The header has whole seconds only.
  return lastModified !== undefined && Math.floor(lastModified.getTime() / 1000) * 1000 <= since;
}
