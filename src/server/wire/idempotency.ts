import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import { type Message, toBinary } from "@bufbuild/protobuf";
import type { Interceptor, UnaryRequest, UnaryResponse } from "@connectrpc/connect";
import { type Database, run } from "../db/database.ts";
import { conflict, invalidField } from "../errors.ts";
import type { Job } from "../jobs.ts";
import { showsSecret } from "../logging.ts";
import { decrypt, encrypt } from "../seal/cipher.ts";
import { type Call, callIn } from "./call.ts";
import { bindingsOf } from "./http-rule.ts";
import { decodeAnswer, encodeAnswer } from "./kept-answer.ts";
import type { Answer } from "./unary-calls.ts";

/** Answers that show a credential once are replayed for this long only, and soon not there any more. */
const credentialReplayMs = 5 * 60_000;
const visibleAscii = /^[\x21-\x7e]{1,255}$/;

interface Stored {
  readonly project_id: string | null;
  readonly request: Buffer;
  readonly outcome: Buffer;
  readonly age_ms: number;
}

const shownNoMore = () => conflict("the credential in this answer can no longer be shown");

/**
 * Replays the outcome of a POST that an identity sends again under the same Idempotency-Key within 24 hours (G-0.13).
 * The outcome is written in the transaction of the change, so that either both are there or neither.
 */
export function replaying(key: KeyObject): Interceptor {
  return (next) => (request) => {
    const call = callIn(request);
    const given = call.source.header("idempotency-key");
    if (given === undefined || request.stream || call.identity === undefined || !isPost(request.method))
      return next(request);
    return replayOrRun(key, given, call, request, next as (request: UnaryRequest) => Promise<UnaryResponse>);
  };
}

const isPost = (method: UnaryRequest["method"]) =>
  method.methodKind === "unary" && bindingsOf(method).some(({ verb }) => verb === "POST");

async function replayOrRun(
  key: KeyObject,
  given: string,
  call: Call,
  request: UnaryRequest,
  next: (request: UnaryRequest) => Promise<UnaryResponse>,
): Promise<UnaryResponse> {
  if (!visibleAscii.test(given))
    throw invalidField("header.Idempotency-Key", "must be 1 to 255 visible ASCII characters");
  const identityId = call.caller.id;
  const place = `holdfast/v1|idempotency|${identityId}|${given}`;
  const fingerprint = createHmac("sha256", key)
    .update(`${onlyFor(call)}${request.method.parent.typeName}/${request.method.name}\n`)
    .update(toBinary(request.method.input, request.message as Message))
    .digest();
  const stored = await findStored(call, identityId, given);
  if (stored !== undefined) {
    if (!timingSafeEqual(stored.request, fingerprint)) {
      throw conflict("the Idempotency-Key was used for another request");
    }
    if (stored.outcome.length === 0) throw shownNoMore();
    const { answer, message } = decodeAnswer(request.method, decrypt(key, place, stored.outcome));
    if (stored.age_ms > credentialReplayMs && showsSecret(request.method.output, message)) throw shownNoMore();
    call.headers["idempotency-replayed"] = "true";
    call.about({ details: { replayed: true } });
    authorizeReplay(call, stored);
    return responseOf(request, answer);
  }
  const response = await next(request);
  // A replay could not set them again.
  if (call.cookies.length > 0) return response;
  const { bytes, message } = encodeAnswer(request.method, response.message);
  await run(
    call.em,
    `insert into idempotency_record (identity_id, key, organization_id, project_id, request, outcome, shows_credential)
     values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (identity_id, key) do update set project_id = excluded.project_id, request = excluded.request,
       outcome = excluded.outcome, shows_credential = excluded.shows_credential, created_at = now()`,
    [
      identityId,
      given,
      call.caller.organizationId,
      call.subject.projectId ?? null,
      fingerprint,
      encrypt(key, place, bytes),
      showsSecret(request.method.output, message),
    ],
  );
  return response;
}

/**
 * The credential that alone may replay the outcome. A login may be told what another one of its identity did; an API
 * token, which may do less than its owner, and a method that is about the caller's own credential, ask for the same one.
 */
function onlyFor({ caller, policy }: Call): string {
  const { credential } = caller;
  return credential?.type === "api_token" || policy?.caller.case === "anyIdentity" ? `${credential?.id}\n` : "";
}

/** Whoever may no longer do it in that project does not see either what came of it. */
function authorizeReplay(call: Call, { project_id: projectId }: Stored): void {
  if (projectId === null || call.policy?.inProject !== true) call.authorizedByReplay();
  else if (call.targetPermission === "") call.authorizeIn(projectId);
  else call.authorizeIn(projectId, call.targetPermission);
}

async function findStored(call: Call, identityId: string, given: string): Promise<Stored | undefined> {
  const [lock] = await run<{ free: boolean }>(
    call.em,
    "select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as free",
    [`idempotency:${identityId}:${given}`],
  );
  if (!lock?.free) throw conflict("the first request with this Idempotency-Key is still running");
  const [stored] = await run<Stored>(
    call.em,
    `select project_id, request, outcome, (extract(epoch from now() - created_at) * 1000)::float8 as age_ms
     from idempotency_record where identity_id = $1 and key = $2 and created_at > now() - interval '24 hours'`,
    [identityId, given],
  );
  return stored;
}

const forgetCredentials = `update idempotency_record set outcome = '', shows_credential = false
  where shows_credential and created_at < now() - make_interval(secs => $1)`;

/** Outcomes are kept for 24 hours; of those that show a credential, only that there was one. */
export function purgeJob(db: Database): Job {
  return {
    name: "idempotency.purge",
    schedule: "*/5 * * * *",
    async run() {
      await db.query(forgetCredentials, [credentialReplayMs / 1000]);
      await db.query("delete from idempotency_record where created_at < now() - make_interval(hours => $1)", [24]);
    },
  };
}

function responseOf(request: UnaryRequest, answer: Answer): UnaryResponse {
  const { service, method } = request;
  return { stream: false, service, method, message: answer as Message, header: new Headers(), trailer: new Headers() };
}
