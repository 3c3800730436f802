import { plainUrl } from "../settings.ts";

/** Of an API, which paths are added to: without a query, and written in one way whichever way it was given. */
export const baseUrl = plainUrl
  .refine((text) => (URL.parse(text)?.search ?? "") === "", "must be a URL without a query")
  .transform((text) => {
    const { origin, pathname } = new URL(text);
    return `${origin}${pathname.replace(/\/+$/, "")}`;
  });
