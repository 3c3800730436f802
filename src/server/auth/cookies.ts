import { createHmac, type KeyObject } from "node:crypto";
import { sessionCookie } from "../wire/session-cookie.ts";

/** However much it is used, a session ends so long after the login that it began with. */
export const absoluteMs = 12 * 60 * 60_000;

/** The cookie that the console's script reads, to send it back in X-CSRF-Token. */
const csrfCookie = "holdfast_csrf";

/** What proves that a request was made by a page that may read our cookies (gaps section 10). */
export const csrfTokenOf = (key: KeyObject, sessionId: string) =>
  createHmac("sha256", key).update(sessionId).digest("base64url");

const common = "Secure; SameSite=Strict; Path=/";

/** The values of Set-Cookie that begin a session. */
export const cookiesOf = (secret: string, csrfToken: string) => {
  const maxAge = `Max-Age=${absoluteMs / 1000}`;
  return [
    `${sessionCookie}=${secret}; HttpOnly; ${common}; ${maxAge}`,
    `${csrfCookie}=${csrfToken}; ${common}; ${maxAge}`,
  ];
};

/** The values of Set-Cookie that end it. */
export const endedCookies = () => [
  `${sessionCookie}=; HttpOnly; ${common}; Max-Age=0`,
  `${csrfCookie}=; ${common}; Max-Age=0`,
];
