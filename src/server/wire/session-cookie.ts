import { timingSafeEqual } from "node:crypto";
import { authInvalid, Refusal } from "../errors.ts";
import type { Call, Source } from "./call.ts";

/** The cookie that a browser sends and no script can read. */
export const sessionCookie = "holdfast_session";

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * The value of the session's cookie, when the request carries one. Throws AUTH_INVALID for several: a page of a
 * neighbouring host can set one too, and have the browser send it first.
 */
export function cookieOf(source: Source): string | undefined {
  const cookies = (source.header("cookie") ?? "").split(";").map((each) => each.trim());
  const sessions = cookies.filter((each) => each.startsWith(`${sessionCookie}=`));
  if (new Set(sessions).size > 1) throw authInvalid("the request carries several sessions");
  return sessions[0]?.slice(sessionCookie.length + 1);
}

/**
 * Refuses a request that a browser's session authenticates and that may change something, unless it comes from a page
 * of ours: it carries the session's token in X-CSRF-Token, and no foreign Origin (gaps section 10).
 */
export function checkCsrf({ source, identity }: Call): void {
  const expected = identity?.credential?.csrfToken;
  if (expected === undefined || safeMethods.has(source.method)) return;
  const origin = source.header("origin");
  if (origin !== undefined && !source.isOwnOrigin(origin)) {
    throw new Refusal("CSRF_INVALID", "the request comes from another origin");
  }
  const given = source.header("x-csrf-token");
  if (given === undefined) throw new Refusal("CSRF_INVALID", "the header X-CSRF-Token is required");
  if (!equal(given, expected)) throw new Refusal("CSRF_INVALID", "the X-CSRF-Token is not that of the session");
}

function equal(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Whether an Origin is this server's: that of its public URL or, without one, the host that the request names. */
export function isOwnOrigin(origin: string, host: string | undefined, publicUrl: string | undefined): boolean {
  if (!URL.canParse(origin)) return false;
  const given = new URL(origin);
  return publicUrl === undefined ? given.host === host : given.origin === new URL(publicUrl).origin;
}
