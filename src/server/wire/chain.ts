import type { DescMessage, Message } from "@bufbuild/protobuf";
import { pathToString } from "@bufbuild/protobuf/reflect";
import { createValidator, type Validator } from "@bufbuild/protovalidate";
import type { Interceptor } from "@connectrpc/connect";
import { RateClass } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";
import { noteUnknownFields } from "../../standards/closed-messages.ts";
import type { AuditWriter } from "../audit/audit-writer.ts";
import { authInvalid, authRequired, invalid, notFound, permissionDenied, Refusal, toRefusal } from "../errors.ts";
import { type Logger, redact } from "../logging.ts";
import { bodyFieldOf, faultsInBody } from "./body-field.ts";
import { type Call, callIn } from "./call.ts";
import { addressKey } from "./client-address.ts";
import type { Authenticate, Identity, Presented } from "./identity.ts";
import { holdsMoreThan } from "./list-lengths.ts";
import type { MethodPolicy } from "./policy.ts";
import type { RateLimits } from "./rate-limits.ts";
import { checkCsrf, cookieOf } from "./session-cookie.ts";
import { replacingErrors } from "./stream-calls.ts";
import { checkTexts } from "./texts.ts";

/** Finds out who calls; refuses nobody, so that a bad token is counted before it is refused. */
async function identify(call: Call, authenticate: Authenticate): Promise<void> {
  try {
    const presented = presentedBy(call);
    if (presented !== undefined) call.identity = await authenticate(presented);
  } catch (error) {
    call.anonymousBecause = toRefusal(error);
  }
}

/** The credential of a request; a cookie counts only without an Authorization header (gaps section 10). */
function presentedBy({ source }: Call): Presented | undefined {
  const authorization = source.header("authorization");
  if (authorization === undefined) {
    const cookie = cookieOf(source);
    return cookie === undefined ? undefined : { cookie };
  }
  const [, scheme = "", bearer = ""] = /^(\S*)\s*(.*)$/.exec(authorization.trim()) ?? [];
  if (scheme.toLowerCase() !== "bearer") {
    throw authInvalid("the Authorization header must be of the scheme Bearer");
  }
  return bearer === "" ? undefined : { bearer };
}

/** Counts the request and says where the caller stands; throws RATE_LIMITED past the limit (gaps section 11). */
async function limit(call: Call, rateClass: RateClass, limits: RateLimits): Promise<void> {
  const { identity } = call;
  const key = identity === undefined ? addressKey(call.source.address) : rateKeyOf(identity);
  const standing = await limits.count(rateClass, key, identity?.rateLimitPerMinute);
  if (standing === undefined) return;
  call.headers["x-ratelimit-limit"] = String(standing.limit);
  call.headers["x-ratelimit-remaining"] = String(standing.remaining);
  call.headers["x-ratelimit-reset"] = String(standing.resetAt);
  if (standing.exceeded) {
    const { retryAfterSeconds } = standing;
    throw new Refusal("RATE_LIMITED", `the limit of ${standing.limit} requests a minute is exceeded`, {
      retryAfterSeconds,
    });
  }
}

/** What a caller is counted by: each API token by itself (gaps section 11). */
const rateKeyOf = ({ id, credential }: Identity) => (credential?.type === "api_token" ? credential.id : id);

/** Finds out who calls, and counts the call against the limit of its class; throws RATE_LIMITED. */
export type Admit = (call: Call) => Promise<void>;

/** The first links of the chain: who calls, and how often. */
export const admitting =
  (authenticate: Authenticate, limits: RateLimits): Admit =>
  async (call) => {
    const rateClass = call.policy?.rate ?? RateClass.API;
    // Whoever is logging in is nobody yet, whatever credential comes along.
    if (rateClass !== RateClass.AUTH) await identify(call, authenticate);
    await limit(call, rateClass, limits);
  };

/** Records denials and failures, and answers every error in our own vocabulary. */
export function recording(audit: AuditWriter, logger: Logger): Interceptor {
  return (next) => async (request) => {
    const call = callIn(request);
    call.action = call.policy?.action ?? "";
    const refused = async (error: unknown) => {
      const refusal = toRefusal(error);
      logRefusal(logger, call, refusal);
      const outcome = refusal.status === 401 || refusal.status === 403 ? "denied" : "failure";
      const action = outcome === "denied" ? call.action || (call.policy?.deniedAction ?? "") : call.action;
      const known = call.identity?.organizationId ?? call.organizationId;
      if (action !== "" && known !== undefined && refusal.errorCode !== "SERVICE_UNAVAILABLE") {
        await audit.write(call.event(action, outcome, { reason: refusal.errorCode }));
      }
      return refusal;
    };
    try {
      const answer = await next(request);
      return answer.stream ? { ...answer, message: replacingErrors(answer.message, refused) } : answer;
    } catch (error) {
      throw await refused(error);
    }
  };
}

function logRefusal(logger: Logger, call: Call, refusal: Refusal): void {
  const line = { request_id: call.source.requestId, method: call.policy?.method.name, code: refusal.errorCode };
  if (refusal.errorCode === "INTERNAL_ERROR") logger.error({ ...line, err: refusal.cause }, "call failed unexpectedly");
  else if (refusal.errorCode === "SERVICE_UNAVAILABLE")
    logger.warn({ ...line, err: refusal.cause }, "call could not be served");
  else logger.debug(line, "call refused");
}

/** Whether the caller may call at all; which project they may do it in, the method asks once it knows the project. */
export function authorizing(enabledFeatures: ReadonlySet<string>): Interceptor {
  return (next) => async (request) => {
    const call = callIn(request);
    authorize(call, enabledFeatures);
    return next(request);
  };
}

/** Throws why nobody is known to call, unless anybody may. */
export function requireIdentity(call: Call, policy: MethodPolicy): void {
  if (policy.caller.case !== "public" && call.identity === undefined) throw call.anonymousBecause ?? authRequired();
}

function authorize(call: Call, enabledFeatures: ReadonlySet<string>): void {
  const { policy, identity } = call;
  if (policy === undefined) throw new Error("a call without a policy");
  const isPublic = policy.caller.case === "public";
  requireIdentity(call, policy);
  if (!isPublic) checkCsrf(call);
  if (policy.feature !== "" && !enabledFeatures.has(policy.feature)) {
    throw new Refusal("FEATURE_DISABLED", `the feature ${policy.feature} is switched off`);
  }
  if (isPublic || identity === undefined) return;
  if (!identity.admits(call.source.address)) {
    throw new Refusal("PERMISSION_DENIED", "the credential may not be used from this address");
  }
  const { caller } = policy;
  if (caller.case === "permission") {
    const held =
      identity.permissions.has(caller.value) ||
      (policy.inProject &&
        [...identity.projectPermissions.values()].some((permissions) => permissions.has(caller.value)));
    if (!held) throw permissionDenied(caller.value);
  } else if (caller.case === "role" && !identity.roles.has(caller.value)) {
    throw new Refusal("PERMISSION_DENIED", `role ${caller.value} is required`);
  }
}

/** Each fault of a message with more items than that would take longer to name than anybody may hold up the server. */
const mostItemsJudged = 1000;

interface Validators {
  readonly firstFault: Validator;
  readonly everyFault: Validator;
}

/** Refuses a message that could not be read or breaks a rule of its proto, with every fault named, or of very long ones the first. */
export function validating(logger: Logger): Interceptor {
  const validators = { firstFault: createValidator({ failFast: true }), everyFault: createValidator() };
  return (next) => async (request) => {
    const call = callIn(request);
    const { method } = request;
    if (call.unreadableBecause !== undefined) throw unreadable(call.unreadableBecause, call, method.input);
    const check = (message: Message) => {
      validate(validators, call, method.input, message);
      if (!logger.isLevelEnabled("trace")) return;
      const shown = redact(method.input, message);
      logger.trace({ request_id: call.source.requestId, method: method.name, message: shown }, "call");
    };
    if (request.stream) return next({ ...request, message: checkingEach(request.message, check) });
    check(request.message);
    return next(request);
  };
}

/** The messages of a stream, each checked when the method asks for it. */
async function* checkingEach<T extends Message>(messages: AsyncIterable<T>, check: (message: T) => void) {
  for await (const message of messages) {
    check(message);
    yield message;
  }
}

/** Why a message could not be read, with what was at fault before that was known. */
function unreadable(because: Refusal, call: Call, schema: DescMessage): Refusal {
  if (because.faults.length === 0 || (call.faults.length === 0 && bodyFieldOf(schema) === undefined)) return because;
  return Object.assign(invalid(faultsInBody(schema, [...call.faults, ...because.faults])), { cause: because });
}

function validate({ firstFault, everyFault }: Validators, call: Call, schema: DescMessage, message: Message): void {
  let result = firstFault.validate(schema, message);
  if (result.kind === "invalid" && !holdsMoreThan(mostItemsJudged, message)) {
    result = everyFault.validate(schema, message);
  }
  if (result.kind === "error") throw result.error;
  const faults = [...call.faults];
  for (const violation of result.kind === "invalid" ? result.violations : []) {
    // A rule between fields has no field of its own.
    const path = pathToString(violation.field) || "body";
    if (call.policy?.pathFields.has(path)) throw notFound(call.policy.resourceType.replaceAll("_", " ") || "resource");
    // What holds the place of something at fault is not judged.
    if (!call.faults.some(({ field }) => field === path)) faults.push({ field: path, message: violation.message });
  }
  noteUnknownFields(schema, message, faults);
  checkTexts(schema, message, faults);
  if (faults.length > 0) throw invalid(faultsInBody(schema, faults));
}
