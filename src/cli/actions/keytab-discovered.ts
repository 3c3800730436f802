import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  type DiscoveredKeytab,
  DiscoveredKeytabSchema,
  DiscoveredKeytabService,
} from "../../../gen/ts/holdfast/discovery/v1/discovered_keytab_service_pb.ts";
import { type Keytab, KeytabSchema } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { allPages } from "../../client/pages.ts";
import type { Json } from "../commands/options.ts";
import { findProjectId } from "../find.ts";
import { printRecords, printRestRecord, say } from "../output.ts";
import { openSession } from "../session.ts";

export interface DiscoveredListOptions extends Json {
  readonly state?: string;
  readonly agent?: string;
  readonly realm?: string;
  readonly principal?: string;
  readonly finding?: string;
  readonly drifted?: boolean;
}
export interface ReasonOptions extends Json {
  readonly reason?: string;
}
export interface ImportDiscoveredOptions extends Json {
  readonly name?: string;
  readonly project?: string;
  readonly expiresAt?: Date;
}

/** Longer than the server waits for an agent. */
const patience = { timeoutMs: 45_000 };

export async function list({ agent: agentId, ...options }: DiscoveredListOptions): Promise<void> {
  const { state, realm, principal, finding, drifted } = options;
  const filters = { state, agentId, realm, principal, finding, drifted };
  const api = openSession();
  printRecords(
    DiscoveredKeytabSchema,
    await allPages(({ page, perPage: limit }) =>
      api(DiscoveredKeytabService).listDiscoveredKeytabs({ ...filters, page, limit }),
    ),
    [
      ["HOST", ({ hostname }) => hostname],
      ["FILE", ({ filePath }) => filePath],
      ["PRINCIPAL", ({ principal }) => principal],
      ["KVNO", ({ kvno }) => String(kvno)],
      ["STATE", ({ state, drifted }) => (drifted ? `${state}, drifted` : state)],
      ["MODE", ({ filePermissions }) => filePermissions],
      ["OWNER", ({ fileOwner }) => fileOwner],
      ["FINDINGS", ({ findings }) => findings.join(", ")],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function ignore(id: string, options: ReasonOptions): Promise<void> {
  const { reason = "" } = options;
  showFile(await openSession()(DiscoveredKeytabService).ignoreDiscoveredKeytab({ id, reason }), options);
}

export async function unignore(id: string, options: Json): Promise<void> {
  showFile(await openSession()(DiscoveredKeytabService).unignoreDiscoveredKeytab({ id }), options);
}

/** Has the file fetched from its host and takes it under management. */
export async function importDiscovered(id: string, options: ImportDiscoveredOptions): Promise<void> {
  const { name, project, expiresAt } = options;
  const api = openSession();
  const request = {
    id,
    name,
    projectId: project === undefined ? undefined : await findProjectId(api, project),
    ...(expiresAt && { expiresAt: timestampFromDate(expiresAt) }),
  };
  showKeytab(await api(DiscoveredKeytabService).importDiscoveredKeytab(request, patience), options);
}

/** Has the file fetched from its host and makes it the next version of its keytab. */
export async function resync(id: string, options: ReasonOptions): Promise<void> {
  const { reason: changeReason = "" } = options;
  showKeytab(
    await openSession()(DiscoveredKeytabService).resyncDiscoveredKeytab({ id, changeReason }, patience),
    options,
  );
}

function showFile(file: DiscoveredKeytab, { json }: Json): void {
  if (json) printRestRecord(DiscoveredKeytabSchema, file);
  else say(`${file.hostname}:${file.filePath} is ${file.state}`);
}

function showKeytab(keytab: Keytab, { json }: Json): void {
  if (json) printRestRecord(KeytabSchema, keytab);
  else say(`${keytab.id} has version ${keytab.version} of ${keytab.name}: ${keytab.cipherCompliance}`);
}
