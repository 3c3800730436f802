import type * as pb from "../../../gen/ts/holdfast/discovery/v1/discovered_keytab_service_pb.ts";
import type { KeytabRequests } from "../agents/keytab-requests.ts";
import { findProject } from "../auth/find-project.ts";
import { wrongState } from "../errors.ts";
import { keytabId } from "../keytabs/keytab-record.ts";
import type { Call } from "../wire/call.ts";
import type { Preparation } from "../wire/preparing.ts";
import type { DiscoveredFields } from "./discovered-record.ts";
import { findDiscovered } from "./find-discovered.ts";

/** A file as it was reported, and its bytes, which have the hash that was reported. */
export interface FetchedFile {
  readonly file: DiscoveredFields;
  readonly bytes: Buffer;
}

const longestName = 255;

/** The name of a keytab to be: that of the principal, as far as it fits, unless one is given. */
export const nameOf = ({ name }: pb.ImportDiscoveredKeytabRequest, { principal }: DiscoveredFields): string =>
  name ?? [...principal].slice(0, longestName).join("");

/** Which file it was, for the audit log. */
export const placeOf = ({ id, agentId, hostname, filePath }: DiscoveredFields) => ({
  discovered_keytab_id: id,
  agent_id: agentId,
  hostname,
  file_path: filePath,
});

/** What the methods wait for that take a file from its host: whatever speaks against it is said before the agent is asked. */
export function fetching(requests: KeytabRequests): Readonly<Record<string, Preparation>> {
  const fetch = async (call: Call, file: DiscoveredFields, signal: AbortSignal): Promise<FetchedFile> => {
    const { organizationId, agentId, hostname, filePath, keytabHash: expectedHash } = file;
    const bytes = await requests.ask(call, { organizationId, agentId, hostname, filePath, expectedHash }, signal);
    return { file, bytes };
  };
  return {
    async importDiscoveredKeytab(request: pb.ImportDiscoveredKeytabRequest, call, signal) {
      const { id, projectId } = request;
      if (projectId !== undefined) await findProject(call, projectId, "project_id");
      const file = await findDiscovered(call, id);
      call.about({ name: nameOf(request, file), details: placeOf(file) });
      if (file.state === "stale" || file.state === "imported")
        throw wrongState(`the discovered keytab is ${file.state}`);
      await requireUnmanaged(call, file);
      return fetch(call, file, signal);
    },
    async resyncDiscoveredKeytab({ id, changeReason }: pb.ResyncDiscoveredKeytabRequest, call, signal) {
      call.about({ reason: changeReason });
      const file = await findDiscovered(call, id);
      call.about({ details: placeOf(file) });
      if (file.state !== "imported") throw wrongState(`the discovered keytab is ${file.state}`);
      call.about({ id: keytabId(file.managedKeytabId as string) });
      if (!file.drifted) throw wrongState("the file does not differ from its keytab");
      return fetch(call, file, signal);
    },
  };
}

/** A keytab with these bytes that came at the same time as the report of the file is not linked to it yet. */
async function requireUnmanaged(call: Call, { keytabHash }: DiscoveredFields): Promise<void> {
  const managing = await call.query(
    "select 1 from keytab where organization_id = $1 and keytab_hash = $2 and deleted_at is null",
    [call.caller.organizationId, keytabHash],
  );
  if (managing.length > 0) throw wrongState("a keytab with the bytes of this file is managed already");
}
