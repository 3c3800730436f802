import { AuditService as descriptor } from "../../../gen/ts/holdfast/audit/v1/audit_service_pb.ts";
import type { Context } from "../context.ts";
import { AuditEventTable } from "./audit-event.ts";
import { AuditService } from "./audit-service.ts";

export const audit: Context = {
  entities: [AuditEventTable],
  services: () => [{ descriptor, implementation: new AuditService() }],
};
