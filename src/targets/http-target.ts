import type { OutboundAnswer } from "../outbound/exchange.ts";
import { OutboundError } from "../outbound/outbound-error.ts";
import { TargetError } from "./target-error.ts";

/** Of what a client did wrong (RFC 9110), these pass with time. */
const passingStatuses: ReadonlySet<number> = new Set([408, 421, 423, 425, 429]);

/** Turns the OutboundError of a target into a TargetError, as in "the webhook: …"; passes on everything else. */
export const notAnswered =
  (target: string) =>
  (error: unknown): never => {
    if (!(error instanceof OutboundError)) throw error;
    const { code, permanent, unsent: unchanged } = error;
    throw new TargetError(code, `${target}: ${error.message}`, { permanent, unchanged, cause: error });
  };

/** Whether an answer says that it is done. */
export const isSuccess = ({ status }: OutboundAnswer): boolean => status >= 200 && status <= 299;

/**
 * What an answer says that is no success, as in "the webhook answered 503". Whoever redirects, or says that the client is
 * wrong (4xx), has changed nothing.
 */
export function refusalOf(target: string, { status, headers }: OutboundAnswer): TargetError {
  const retryAfterMs = retryAfterOf(headers["retry-after"]);
  const isPassing = passingStatuses.has(status) || retryAfterMs !== undefined;
  const unchanged = status >= 300 && status <= 499;
  const hint = status >= 300 && status <= 399 ? "; redirects are not followed" : "";
  const options = { permanent: unchanged && !isPassing, unchanged, retryAfterMs };
  return new TargetError("refused", `${target} answered ${status}${hint}`, options);
}

/** In milliseconds from now; of seconds or of a date (RFC 9110 section 10.2.3). */
function retryAfterOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  // Of what is no date, JavaScript makes one all the same.
  const at = text.endsWith(" GMT") ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}
