import type { Interceptor } from "@connectrpc/connect";
import type { AuditWriter } from "../audit/audit-writer.ts";
import { Refusal } from "../errors.ts";
import { type Call, callIn } from "./call.ts";
import type { MethodPolicy } from "./policy.ts";

/**
 * Runs the method. What it changes, its audit events and its jobs commit in one transaction; a method without side
 * effects runs in none, and its audit event, if it has one, is committed before the answer leaves. No audit, no answer.
 * A stream runs in none either, and its event is committed before the first message leaves.
 * Past the end of the license only logins, sessions and their ends are committed (G-17.6), which is the last of all
 * checks (G-0.10).
 */
export function unitOfWork(audit: AuditWriter, licenseEnd?: Date): Interceptor {
  return (next) => async (request) => {
    const call = callIn(request);
    const { policy } = call;
    if (policy === undefined) return next(request);
    const recordReading = async () => {
      requireDecision(call);
      await Promise.all(eventsOf(call).map((event) => audit.write(event)));
    };
    if (request.stream) {
      const answer = await next(request);
      return answer.stream ? { ...answer, message: beforeFirst(answer.message, recordReading) } : answer;
    }
    if (!policy.transactional) {
      const answer = await next(request);
      await recordReading();
      return answer;
    }
    return call.inTransaction(async () => {
      const answer = await next(request);
      requireDecision(call);
      await call.em.flush();
      if (licenseEnd !== undefined && licenseEnd <= call.now && !comesOrGoes(policy)) {
        throw new Refusal("LICENSE_EXPIRED", "the license has expired");
      }
      await audit.record(call.em, eventsOf(call));
      return answer;
    });
  };
}

/** The messages of a stream, once `work` is done: the method has decided by then what it would say first. */
async function* beforeFirst<T>(messages: AsyncIterable<T>, work: () => Promise<void>): AsyncGenerator<T> {
  let isFirst = true;
  for await (const message of messages) {
    if (isFirst) await work();
    isFirst = false;
    yield message;
  }
  if (isFirst) await work();
}

const eventsOf = (call: Call) =>
  call.action === "" ? call.events : [call.event(call.action, "success"), ...call.events];

/** Whether a method only lets somebody in or out; the first step of a login has no event to be named after. */
const comesOrGoes = ({ resourceType }: MethodPolicy) => ["", "auth", "session"].includes(resourceType);

/** A method that a binding at a project opens must have asked in which project, or its answer does not leave. */
function requireDecision(call: Call): void {
  const { policy } = call;
  if (policy?.inProject && policy.caller.case === "permission" && !call.decided) {
    throw new Error(`${policy.method.name} did not ask in which project`);
  }
}
