import type { DescMessage, Message } from "@bufbuild/protobuf";
import { pathToString } from "@bufbuild/protobuf/reflect";
import { createValidator, type Validator } from "@bufbuild/protovalidate";
import type { Interceptor } from "@connectrpc/connect";
import { RateClass } from "../../../gen/ts/holdfast/options/v1/options_pb.ts";
import type { AuditWriter } from "../audit/audit-writer.ts";
import {
  authInvalid,
  authRequired,
  type FieldFault,
  invalid,
  notFound,
  permissionDenied,
  Refusal,
  toRefusal,
} from "../errors.ts";
import { type Logger, redact } from "../logging.ts";
import { type Call, callIn } from "./call.ts";
import { addressKey } from "./client-address.ts";
import type { Authenticate } from "./identity.ts";
import type { MethodPolicy } from "./policy.ts";
import type { RateLimits } from "./rate-limits.ts";
import { checkTexts } from "./texts.ts";

/** Finds out who calls; refuses nobody, so that a bad token is counted before it is refused. */
async function identify(call: Call, authenticate: Authenticate): Promise<void> {
  const authorization = call.source.header("authorization");
  if (authorization === undefined) return;
  const [, scheme = "", token = ""] = /^(\S*)\s*(.*)$/.exec(authorization.trim()) ?? [];
  if (scheme.toLowerCase() !== "bearer") {
    call.anonymousBecause = authInvalid("the Authorization header must be of the scheme Bearer");
  } else if (token === "") call.anonymousBecause = authRequired();
  else {
    try {
      call.identity = await authenticate(token);
    } catch (error) {
      call.anonymousBecause = toRefusal(error);
    }
  }
}

/** Counts the request and says where the caller stands; throws RATE_LIMITED past the limit (gaps section 11). */
async function limit(call: Call, rateClass: RateClass, limits: RateLimits): Promise<void> {
  const { identity } = call;
  const byAddress = rateClass === RateClass.AUTH || identity === undefined;
  const key = byAddress ? addressKey(call.source.address) : identity.id;
  const standing = await limits.count(rateClass, key, byAddress ? undefined : identity.rateLimitPerMinute);
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

/** Finds out who calls, and counts the call against the limit of its class; throws RATE_LIMITED. */
export type Admit = (call: Call) => Promise<void>;

/** The first links of the chain: who calls, and how often. */
export const admitting =
  (authenticate: Authenticate, limits: RateLimits): Admit =>
  async (call) => {
    await identify(call, authenticate);
    await limit(call, call.policy?.rate ?? RateClass.API, limits);
  };

/** Records denials and failures, and answers every error in our own vocabulary. */
export function recording(audit: AuditWriter, logger: Logger): Interceptor {
  return (next) => async (request) => {
    const call = callIn(request);
    call.action = call.policy?.action ?? "";
    try {
      return await next(request);
    } catch (error) {
      const refusal = toRefusal(error);
      logRefusal(logger, call, refusal);
      const outcome = refusal.status === 401 || refusal.status === 403 ? "denied" : "failure";
      const action = outcome === "denied" ? call.action || (call.policy?.deniedAction ?? "") : call.action;
      const known = call.identity?.organizationId ?? call.organizationId;
      if (action !== "" && known !== undefined && refusal.errorCode !== "SERVICE_UNAVAILABLE") {
        await audit.write(call.event(action, outcome, { reason: refusal.errorCode }));
      }
      throw refusal;
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

/** Refuses a message that could not be read or breaks a rule of its proto, with every fault named. */
export function validating(logger: Logger): Interceptor {
  const validator = createValidator();
  return (next) => async (request) => {
    const call = callIn(request);
    if (call.unreadableBecause !== undefined) throw call.unreadableBecause;
    if (!request.stream) validate(validator, call, request.method.input, request.message);
    if (!request.stream && logger.isLevelEnabled("trace")) {
      const message = redact(request.method.input, request.message);
      logger.trace({ request_id: call.source.requestId, method: request.method.name, message }, "call");
    }
    return next(request);
  };
}

function validate(validator: Validator, call: Call, schema: DescMessage, message: Message): void {
  const result = validator.validate(schema, message);
  if (result.kind === "error") throw result.error;
  const faults: FieldFault[] = [];
  for (const violation of result.kind === "invalid" ? result.violations : []) {
    // A rule between fields has no field of its own.
    const path = pathToString(violation.field) || "body";
    if (call.policy?.pathFields.has(path)) throw notFound(call.policy.resourceType.replaceAll("_", " ") || "resource");
    faults.push({ field: path, message: violation.message });
  }
  checkTexts(schema, message, faults);
  if (faults.length > 0) throw invalid(faults);
}
