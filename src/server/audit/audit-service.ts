import { toJson } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type * as pb from "../../../gen/ts/holdfast/audit/v1/audit_service_pb.ts";
import { ExportAuditEventsRequestSchema } from "../../../gen/ts/holdfast/audit/v1/audit_service_pb.ts";
import { headOf, organizationChainKey } from "../../standards/audit-chain.ts";
import { fetchPage } from "../db/page.ts";
import { notFound } from "../errors.ts";
import { callOf } from "../wire/call.ts";
import { conditionsOf, pagesInOrder } from "./event-pages.ts";
import { answerOf, type EventRow, eventFields } from "./event-rows.ts";
import { verifyLog } from "./verify-log.ts";

const dayMs = 86_400_000;

/** The methods of audit_service.proto. */
export class AuditService implements ServiceImpl<typeof pb.AuditService> {
  readonly #installationKey: Buffer;

  constructor(installationKey: Buffer) {
    this.#installationKey = installationKey;
  }

  async listAuditEvents(request: pb.ListAuditEventsRequest, context: HandlerContext) {
    const call = callOf(context);
    const where = conditionsOf(request, call.caller.organizationId, call.visibleProjects);
    const select = { columns: eventFields, from: "audit_event a", where, orderBy: "a.occurred_at desc, a.id desc" };
    const { rows, pagination } = await fetchPage<EventRow>(call, select, request);
    return { data: rows.map(answerOf), pagination };
  }

  async getAuditEvent({ id }: pb.GetAuditEventRequest, context: HandlerContext) {
    const call = callOf(context);
    // An id is made after the event occurred, as part of the same call: the rest of the months need not be searched.
    const madeAt = timeOf(id);
    const where = conditionsOf({}, call.caller.organizationId, call.visibleProjects)
      .add("a.id = ?", id)
      .add("a.occurred_at > ?", new Date(madeAt - dayMs))
      .add("a.occurred_at < ?", new Date(madeAt + dayMs));
    const [event] = await call.query<EventRow>(
      `select ${eventFields} from audit_event a where ${where.text}`,
      where.values,
    );
    if (event === undefined) throw notFound("audit event");
    return answerOf(event);
  }

  async *exportAuditEvents(request: pb.ExportAuditEventsRequest, context: HandlerContext) {
    const call = callOf(context);
    const { organizationId } = call.caller;
    const where = conditionsOf(request, organizationId, call.visibleProjects);
    call.about({ details: { filter: toJson(ExportAuditEventsRequestSchema, request, { useProtoFieldName: true }) } });
    for await (const rows of pagesInOrder(call, where, organizationId, request)) {
      context.signal.throwIfAborted();
      for (const row of rows) yield answerOf(row);
    }
  }

  async verifyAuditLog(_: pb.VerifyAuditLogRequest, context: HandlerContext) {
    const call = callOf(context);
    const { organizationId } = call.caller;
    const key = organizationChainKey(this.#installationKey, organizationId);
    const { verifier, broken } = await verifyLog(call, key, organizationId, context.signal);
    const { checked, firstSequence, lastSequence } = verifier;
    const chains = verifier.ends();
    return {
      valid: broken === undefined,
      checked,
      firstSequence,
      lastSequence,
      brokenAt: broken?.sequence,
      brokenChain: broken?.chain,
      brokenReason: broken?.reason,
      head: headOf(chains),
      chains,
    };
  }
}

/** The time in a version 7 UUID, in ms since 1970; some time or other for another one. */
const timeOf = (id: string) => Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
