import { DiscoveredKeytabService as discoveredDescriptor } from "../../../gen/ts/holdfast/discovery/v1/discovered_keytab_service_pb.ts";
import { KeytabReportService as reportDescriptor } from "../../../gen/ts/holdfast/discovery/v1/keytab_report_service_pb.ts";
import { KeytabRequests } from "../agents/keytab-requests.ts";
import type { Context } from "../context.ts";
import { DiscoveredKeytab } from "./discovered-keytab.ts";
import { DiscoveredKeytabService } from "./discovered-keytab-service.ts";
import { fetching } from "./fetch-file.ts";
import { KeytabReportService } from "./keytab-report-service.ts";
import { stalenessJob } from "./staleness.ts";

export const discovery: Context = {
  entities: [DiscoveredKeytab],
  services(core) {
    const requests = new KeytabRequests(core);
    const discovered = new DiscoveredKeytabService(core.seal);
    return [
      { descriptor: reportDescriptor, implementation: new KeytabReportService(requests) },
      { descriptor: discoveredDescriptor, implementation: discovered, preparations: fetching(requests) },
    ];
  },
  jobs: (core) => [stalenessJob(core)],
};
