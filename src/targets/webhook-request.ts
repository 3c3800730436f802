import { z } from "zod";
import type { OutboundAnswer } from "../outbound/exchange.ts";
import { signatureHeader, signWebhook } from "../standards/webhook-signature.ts";
import { isSuccess, notAnswered, refusalOf } from "./http-target.ts";
import { type Means, userAgent } from "./means.ts";
import { headers, withoutNulls } from "./settings.ts";

/** What a webhook is sent with that nobody is shown. */
export const webhookCredentials = withoutNulls(
  z.strictObject({ signing_secret: z.string().min(1).max(1024).exactOptional(), headers }),
);

/** An event and whom it goes to. */
interface WebhookRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly credentials: Partial<z.output<typeof webhookCredentials>>;
  readonly event: object;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly beforeSending?: () => void;
}

/** Sends an event, signed if there is a secret for that. Throws a TargetError for any answer that is not from 200 to 299. */
export async function sendWebhook({ outbound }: Means, request: WebhookRequest): Promise<OutboundAnswer> {
  const { url, credentials, event, timeoutMs, signal, beforeSending } = request;
  const { signing_secret: secret, headers: secretly = {} } = credentials;
  const body = JSON.stringify(event);
  const signature = secret === undefined ? {} : { [signatureHeader]: signWebhook(secret, body, new Date()) };
  const own = { "content-type": "application/json", "user-agent": userAgent, ...signature };
  const all = { ...lowerCased(request.headers), ...lowerCased(secretly), ...own };
  const answer = await outbound
    .request(url, { method: "POST", headers: all, body, timeoutMs, signal, beforeSending })
    .catch(notAnswered("the webhook"));
  if (!isSuccess(answer)) throw refusalOf("the webhook", answer);
  return answer;
}

/** Names of headers are the same in any case, and the last one is meant. */
const lowerCased = (given: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]));
