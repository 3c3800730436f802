import { LinkService as descriptor } from "../../../gen/ts/holdfast/links/v1/link_service_pb.ts";
import type { Context } from "../context.ts";
import type { Completion } from "../wire/finishing.ts";
import { SecretLink } from "./link.ts";
import { LinkService } from "./link-service.ts";
import { SyncWorker } from "./sync-worker.ts";

export const links: Context = {
  entities: [SecretLink],
  services: (core) => {
    const implementation = new LinkService(core);
    const deleteLink: Completion = async (answer, call, signal) => {
      await implementation.purge(call, signal);
      return answer;
    };
    return [{ descriptor, implementation, completions: { deleteLink } }];
  },
  work: (core) => {
    const worker = new SyncWorker(core);
    worker.start();
    return () => worker.stop();
  },
};
