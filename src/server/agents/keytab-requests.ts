import { createHash, randomUUIDv7 } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Core } from "../context.ts";
import { type Queries, run } from "../db/database.ts";
import { conflict, notFound, Refusal, wrongState } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import { agentStatus } from "./agent-record.ts";
import { agentTopic } from "./command-streams.ts";
import { openUpload, sealUpload } from "./sealed-upload.ts";

/** A file on a host, as its agent reported it. */
export interface RequestedKeytab {
  readonly organizationId: string;
  readonly agentId: string;
  readonly hostname: string;
  readonly filePath: string;
  /** SHA-256, in hexadecimal digits. */
  readonly expectedHash: string;
}

/** What an agent answers: the file, that it has become another one, or why there is none. */
export type UploadOutcome =
  | { readonly case: "keytabData"; readonly value: Uint8Array }
  | { readonly case: "changed" }
  | { readonly case: "failure"; readonly value: string };

/** A request that waits for its answer. */
interface Asked {
  readonly id: string;
  readonly organizationId: string;
}

/** An answer as it is kept until it is taken. */
interface Answer {
  readonly status: "uploaded" | "changed" | "failed";
  readonly upload: Buffer | null;
  readonly failure: string | null;
  /** The key that opens the upload. */
  readonly wrapped: Buffer | null;
}

const longestWaitSeconds = 30;
/** What a hint that got lost costs. */
const pollMs = 1000;

const requestTopic = (id: string) => `keytab-request:${id}`;

/**
 * Asks agents for files. Request and answer are a row, so that who waits may be on another replica than the agent; the
 * row outlives its answer for a while, so that an answer that is sent again is known.
 */
export class KeytabRequests {
  readonly #core: Pick<Core, "seal" | "wakes">;
  readonly #waitSeconds: number;

  constructor(core: Pick<Core, "seal" | "wakes">, waitSeconds = longestWaitSeconds) {
    this.#core = core;
    this.#waitSeconds = waitSeconds;
  }

  /**
   * The bytes of a file, of the expected hash. Throws SERVICE_UNAVAILABLE for an agent that is offline or does not answer
   * in time, RESOURCE_CONFLICT for a file that has changed or cannot be read (gaps 7.2), and what `signal` is aborted
   * with. `queries` must not be in a transaction: nobody else would see the request.
   */
  async ask(queries: Queries, file: RequestedKeytab, signal: AbortSignal): Promise<Buffer> {
    const { organizationId, agentId, hostname } = file;
    const asked = { id: randomUUIDv7(), organizationId };
    const deadline = performance.now() + this.#waitSeconds * 1000;
    await this.#insert(queries, asked, file);
    this.#core.wakes.wake(agentTopic(agentId));
    const answer = await this.#wait(queries, asked, deadline, signal);
    switch (answer?.status) {
      case "uploaded":
        return openUpload(queries, this.#core.seal, asked, answer);
      case "changed":
        throw conflict("file changed on the host; the record has been refreshed");
      case "failed":
        throw wrongState(`agent ${hostname}: ${answer.failure}`);
      default:
        throw away(`agent ${hostname} did not answer in time`);
    }
  }

  /** Stores what the calling agent answers, in the call's transaction. Throws RESOURCE_NOT_FOUND when nobody waits. */
  async answer(call: Call, requestId: string, outcome: UploadOutcome): Promise<void> {
    const { id: agentId, organizationId } = call.caller;
    const [request] = await run<{ status: string; file_path: string; expected_hash: string; over: boolean }>(
      call.em,
      `select status, file_path, expected_hash, expires_at <= now() as over from agent_command
       where id = $1 and organization_id = $2 and agent_id = $3 for update`,
      [requestId, organizationId, agentId],
    );
    if (request === undefined) throw notFound("request");
    const details = { request_id: requestId, file_path: request.file_path };
    call.about({ details });
    // The answer came before, and its own answer got lost.
    if (request.status !== "pending") return;
    if (request.over) throw notFound("request");
    const status = statusOf(outcome, request.expected_hash);
    call.about({ details: { ...details, outcome: status } });
    const asked = { id: requestId, organizationId };
    const upload =
      status === "uploaded" && outcome.case === "keytabData"
        ? await sealUpload(call, this.#core.seal, asked, outcome.value)
        : null;
    await run(
      call.em,
      "update agent_command set status = $3, upload = $4, failure = $5 where id = $1 and organization_id = $2",
      [requestId, organizationId, status, upload, outcome.case === "failure" ? outcome.value : null],
    );
    call.afterCommit(async () => this.#core.wakes.wake(requestTopic(requestId)));
  }

  async #insert(queries: Queries, { id }: Asked, file: RequestedKeytab): Promise<void> {
    const { organizationId, agentId, hostname, filePath, expectedHash } = file;
    const inserted = await queries.query(
      `insert into agent_command (id, organization_id, agent_id, file_path, expected_hash, expires_at)
       select $1, a.organization_id, a.id, $4, $5, now() + make_interval(secs => $6)
       from agent a where a.organization_id = $2 and a.id = $3 and ${agentStatus} = 'online' returning 1`,
      [id, organizationId, agentId, filePath, expectedHash, this.#waitSeconds],
    );
    if (inserted.length === 0) throw away(`agent ${hostname} is offline`);
  }

  /** The answer; undefined when there is none before the deadline. */
  async #wait(queries: Queries, asked: Asked, deadline: number, signal: AbortSignal): Promise<Answer | undefined> {
    let woken = Promise.withResolvers<void>();
    const stopListening = this.#core.wakes.on(requestTopic(asked.id), () => woken.resolve());
    try {
      for (;;) {
        const answer = await take(queries, asked);
        if (answer !== undefined) return answer;
        signal.throwIfAborted();
        const leftMs = deadline - performance.now();
        if (leftMs <= 0) return await end(queries, asked);
        const pause = sleep(Math.min(pollMs, leftMs), undefined, { signal, ref: false }).catch(() => {});
        await Promise.race([woken.promise, pause]);
        woken = Promise.withResolvers();
      }
    } catch (error) {
      await end(queries, asked).catch(() => {});
      throw error;
    } finally {
      stopListening();
    }
  }
}

/** Takes the answer, if there is one; its bytes and their key are gone then, and so is a key that an agent left behind. */
async function take(queries: Queries, { id, organizationId }: Asked): Promise<Answer | undefined> {
  const [answer] = await queries.query<Answer>(
    `with answer as (
       select status, upload, failure from agent_command
       where id = $1 and organization_id = $2 and status <> 'pending'),
     taken as (
       update agent_command set upload = null where id = $1 and organization_id = $2 and status <> 'pending'),
     key as (delete from data_key where record_id = $1 and organization_id = $2 returning wrapped)
     select * from answer left join key on true`,
    [id, organizationId],
  );
  return answer;
}

/** Ends the request, so that a later answer finds none; an answer that came first is the answer. */
async function end(queries: Queries, asked: Asked): Promise<Answer | undefined> {
  const ended = await queries.query(
    "delete from agent_command where id = $1 and organization_id = $2 and status = 'pending' returning 1",
    [asked.id, asked.organizationId],
  );
  return ended.length > 0 ? undefined : take(queries, asked);
}

function statusOf(outcome: UploadOutcome, expectedHash: string): Answer["status"] {
  if (outcome.case === "failure") return "failed";
  if (outcome.case === "changed") return "changed";
  const hash = createHash("sha256").update(outcome.value).digest("hex");
  return hash === expectedHash ? "uploaded" : "changed";
}

const away = (message: string) =>
  new Refusal("SERVICE_UNAVAILABLE", message, { retryAfterSeconds: longestWaitSeconds });
