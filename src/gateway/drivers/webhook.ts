import { z } from "zod";
import type { OutboundAnswer } from "../../outbound/exchange.ts";
import type { Outbound } from "../../outbound/outbound.ts";
import { OutboundError } from "../../outbound/outbound-error.ts";
import { signatureHeader, signWebhook } from "../../standards/webhook-signature.ts";
import { userAgent } from "../identity.ts";
import { type Assignment, type Driver, DriverError, type Permit } from "./driver.ts";

const Headers = z.record(z.string(), z.string()).default({});
const Settings = z.object({
  url: z.string(),
  mode: z.enum(["push", "mint"]).default("push"),
  timeout_seconds: z.number().int().positive().default(10),
  headers: Headers,
});
const Credentials = z.object({ signing_secret: z.string().optional(), headers: Headers });
const Minted = z.object({ value: z.string().min(1) });

/** Of what a client did wrong (RFC 9110), these pass with time. */
const passingStatuses: ReadonlySet<number> = new Set([408, 421, 423, 425, 429]);

/** Sends the value to a URL, or asks there for one; any status from 200 to 299 says that it is so (gaps 3.2). */
export class WebhookDriver implements Driver {
  readonly #outbound: Outbound;

  constructor(outbound: Outbound) {
    this.#outbound = outbound;
  }

  async apply(assignment: Assignment, permit: Permit): Promise<string | undefined> {
    const { mode } = understood(Settings, assignment.settings);
    const value = mode === "mint" ? {} : { value: assignment.value };
    const { body } = await this.#post(assignment, { event: "rotation.apply", ...value }, permit);
    return mode === "mint" ? mintedBy(body) : undefined;
  }

  async verify(assignment: Assignment, permit: Permit): Promise<void> {
    await this.#post(assignment, { event: "rotation.verify", value: assignment.value }, permit);
  }

  async #post(assignment: Assignment, what: { event: string; value?: string }, permit: Permit) {
    const settings = understood(Settings, assignment.settings);
    const { signing_secret: secret, headers } = understood(Credentials, assignment.credentials);
    const { event, ...value } = what;
    const body = JSON.stringify({ event, ...aboutOf(assignment), ...value });
    const own = {
      "content-type": "application/json",
      "user-agent": userAgent,
      ...(secret === undefined ? {} : { [signatureHeader]: signWebhook(secret, body, new Date()) }),
    };
    const request = {
      headers: { ...lowerCased(settings.headers), ...lowerCased(headers), ...own },
      body,
      timeoutMs: settings.timeout_seconds * 1000,
      signal: permit.signal,
      beforeSending: () => permit.check(),
    };
    const answer = await this.#outbound.post(settings.url, request).catch(unanswered);
    if (answer.status < 200 || answer.status > 299) throw refusalOf(answer);
    return answer;
  }
}

const aboutOf = ({ secretId, key, environment, taskId, attempt }: Assignment) => ({
  secret_id: secretId,
  key,
  environment,
  task_id: taskId,
  attempt,
});

/** Names of headers are the same in any case, and the last one is meant. */
const lowerCased = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

function understood<T>(schema: z.ZodType<T>, given: unknown): T {
  const { success, data } = schema.safeParse(given ?? {});
  if (success) return data;
  throw new DriverError("the settings of the webhook are not understood", { permanent: true });
}

function mintedBy(body: Buffer | undefined): string {
  try {
    return Minted.parse(JSON.parse(body?.toString() ?? "")).value;
  } catch {
    throw new DriverError("the webhook answered no value", { permanent: true });
  }
}

function unanswered(error: unknown): never {
  if (!(error instanceof OutboundError)) throw error;
  throw new DriverError(`the webhook: ${error.message}`, { permanent: error.permanent, cause: error });
}

function refusalOf({ status }: OutboundAnswer): DriverError {
  if (status >= 300 && status < 400)
    return new DriverError(`the webhook answered ${status}; redirects are not followed`, { permanent: true });
  const permanent = status >= 400 && status < 500 && !passingStatuses.has(status);
  return new DriverError(`the webhook answered ${status}`, { permanent });
}
