import { AuditService as descriptor } from "../../../gen/ts/holdfast/audit/v1/audit_service_pb.ts";
import type { Context } from "../context.ts";
import { AuditChainTable, AuditEventTable } from "./audit-event.ts";
import { AuditService } from "./audit-service.ts";
import { installationChainKey } from "./chain-key.ts";
import { checkpointJob } from "./checkpoint.ts";
import { partitionJob } from "./partitions.ts";
import { chainUnchainedJob } from "./unchained.ts";

export const audit: Context = {
  entities: [AuditEventTable, AuditChainTable],
  services: async ({ seal }) => [
    { descriptor, implementation: new AuditService((await installationChainKey(seal)).key) },
  ],
  jobs: (core) => [checkpointJob(core), partitionJob(core), chainUnchainedJob(core)],
};
