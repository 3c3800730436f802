import { z } from "zod";
import type { Means } from "../means.ts";
import { headers, integer, orElse, plainUrl } from "../settings.ts";
import { TargetError } from "../target-error.ts";
import { sendWebhook, webhookCredentials } from "../webhook-request.ts";
import type { Applier, Assignment, Driver, Permit } from "./driver.ts";

const settings = z.strictObject({
  url: plainUrl,
  mode: orElse(z.enum(["push", "mint"]), "push"),
  timeout_seconds: orElse(integer(1, 30), 10),
  headers,
});

type Settings = z.output<typeof settings>;
type Credentials = z.output<typeof webhookCredentials>;

const Minted = z.object({ value: z.string().min(1) });

/** Sends the value to a URL, or asks there for one; any status from 200 to 299 says that it is so (gaps 3.2). */
export const webhook = {
  settings,
  credentials: webhookCredentials,
  mints: ({ mode }) => mode === "mint",
  open: (means) => new WebhookApplier(means),
} satisfies Driver;

class WebhookApplier implements Applier {
  readonly #means: Means;

  constructor(means: Means) {
    this.#means = means;
  }

  async apply(assignment: Assignment, permit: Permit): Promise<string | undefined> {
    const { mode } = assignment.settings as Settings;
    const event = { event: "rotation.apply", ...aboutOf(assignment) };
    if (mode === "mint") return mintedBy(await this.#send(event, assignment, permit));
    await this.#send({ ...event, value: assignment.value }, assignment, permit);
    return undefined;
  }

  async verify(assignment: Assignment, permit: Permit): Promise<void> {
    const event = { event: "rotation.verify", ...aboutOf(assignment), value: assignment.value };
    await this.#send(event, assignment, permit);
  }

  /** Answers the body, if it is not too long. */
  async #send(event: object, assignment: Assignment, permit: Permit): Promise<Buffer | undefined> {
    const { url, timeout_seconds: seconds, headers: named } = assignment.settings as Settings;
    const credentials = (assignment.credentials ?? {}) as Partial<Credentials>;
    const { body } = await sendWebhook(this.#means, {
      url,
      headers: named,
      credentials,
      event,
      timeoutMs: seconds * 1000,
      signal: permit.signal,
      beforeSending: () => permit.check(),
    });
    return body;
  }
}

const aboutOf = ({ secretId, key, environment, taskId, attempt }: Assignment) => ({
  secret_id: secretId,
  key,
  environment,
  task_id: taskId,
  attempt,
});

function mintedBy(body: Buffer | undefined): string {
  try {
    return Minted.parse(JSON.parse(body?.toString() ?? "")).value;
  } catch {
    throw new TargetError("invalid", "the webhook answered no value", { permanent: true });
  }
}
