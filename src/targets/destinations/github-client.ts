import type { OutboundAnswer } from "../../outbound/exchange.ts";
import { isSuccess, notAnswered, refusalOf } from "../http-target.ts";
import { type Means, userAgent } from "../means.ts";
import { TargetError } from "../target-error.ts";

interface GitHubAccess {
  readonly means: Means;
  readonly apiUrl: string;
  readonly token: string;
  /** What the token must be allowed to do, in GitHub's words. */
  readonly permission: string;
  readonly signal: AbortSignal;
}

/** The first version of GitHub's REST API; the next one leaves what is used here as it is. */
const apiVersion = "2022-11-28";
/** Of one request. */
const timeoutMs = 10_000;
/** A hundred secrets' names and times are less. */
const mostBytes = 256 * 1024;
/** To wait after a secondary limit of which GitHub does not say when it ends (its "Rate limits for the REST API"). */
const secondaryLimitMs = 60_000;

/** GitHub's REST API, as the holder of a token sees it. */
export class GitHubClient {
  readonly #access: GitHubAccess;

  constructor(access: GitHubAccess) {
    this.#access = access;
  }

  /** Answers what is a success, or of one of the other statuses that are named. Throws a TargetError. */
  async send(
    method: "GET" | "PUT" | "DELETE",
    path: string,
    { body, passes = [] }: { readonly body?: object; readonly passes?: readonly number[] } = {},
  ): Promise<OutboundAnswer> {
    const { means, apiUrl, token, signal } = this.#access;
    const headers = {
      accept: "application/vnd.github+json",
      authorization: `Bearer ${token}`,
      "user-agent": userAgent,
      "x-github-api-version": apiVersion,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    };
    const content = body === undefined ? undefined : JSON.stringify(body);
    const answer = await means.outbound
      .request(`${apiUrl}${path}`, { method, headers, body: content, timeoutMs, mostBytes, signal })
      .catch(notAnswered("GitHub"));
    if (isSuccess(answer) || passes.includes(answer.status)) return answer;
    throw this.#explained(answer);
  }

  #explained(answer: OutboundAnswer): TargetError {
    const { message, permanent, unchanged, retryAfterMs } = refusalOf("GitHub", answer);
    const restMs = restOf(answer);
    if (restMs !== undefined) {
      const rested = { unchanged, retryAfterMs: retryAfterMs ?? restMs };
      return new TargetError("refused", `GitHub answered ${answer.status}: its rate limit is reached`, rested);
    }
    const hint = this.#hintFor(answer.status);
    const text = hint === undefined ? message : `GitHub answered ${answer.status}: ${hint}`;
    return new TargetError("refused", text, { permanent, unchanged, retryAfterMs });
  }

  #hintFor(status: number): string | undefined {
    if (status >= 300 && status <= 399)
      return "the repository has another name or owner now, and redirects are not followed";
    switch (status) {
      case 401:
        return "the token is not accepted";
      case 403:
        return `the token lacks a permission; it needs ${this.#access.permission}`;
      case 404:
        return `there is no such repository or environment, or the token may not see it; it needs ${this.#access.permission}`;
      default:
        return undefined;
    }
  }
}

/** How long GitHub wants to be left alone; undefined when the answer is not about a rate limit. */
function restOf({ status, headers, body }: OutboundAnswer): number | undefined {
  if (status !== 403 && status !== 429) return undefined;
  const [remaining, reset] = [headers["x-ratelimit-remaining"], Number(headers["x-ratelimit-reset"])];
  if (remaining === "0" && Number.isFinite(reset)) return Math.max(0, reset * 1000 - Date.now());
  const isSecondary = status === 429 || "retry-after" in headers || body?.includes("secondary rate limit") === true;
  return isSecondary ? secondaryLimitMs : undefined;
}
