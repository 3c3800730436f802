import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  type Keytab,
  KeytabListItemSchema,
  KeytabSchema,
  KeytabService,
  KeytabVersionSchema,
} from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { allPages } from "../../client/pages.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { usage } from "../failure.ts";
import { findProjectId } from "../find.ts";
import { parsed, readKeytabBytes } from "../keytab-file.ts";
import { note, print, printRecord, printRecords, printRestRecord, say, timeText } from "../output.ts";
import { writeOwnerFile } from "../owner-file.ts";
import { openSession } from "../session.ts";

export interface ImportOptions extends Json {
  readonly name?: string;
  readonly project?: string;
  readonly expiresAt?: Date;
  readonly notes?: string;
}
export interface ListOptions extends Json {
  readonly project?: string;
  readonly status?: string;
  readonly compliance?: string;
  readonly realm?: string;
  readonly principal?: string;
  readonly source?: string;
}
export interface DownloadOptions {
  readonly output?: string;
  readonly version?: number;
}
export interface ReplaceOptions extends Json {
  readonly reason?: string;
}
export interface RemoveOptions {
  readonly yes?: boolean;
}

const longestName = 255;

/** Stores a file; without a name it gets that of its principal. */
export async function importFile(file: string, options: ImportOptions): Promise<void> {
  const keytabData = await readKeytabBytes(file);
  const { name = nameOf(parsed(file, keytabData)), expiresAt, notes = "" } = options;
  const api = openSession();
  const keytab = await api(KeytabService).importKeytab({
    name,
    keytabData,
    notes,
    projectId: await projectIdOf(api, options),
    ...(expiresAt && { expiresAt: timestampFromDate(expiresAt) }),
  });
  show(`imported ${keytab.name}: ${keytab.id}`, keytab, options);
}

const nameOf = ({ principal }: { readonly principal: string }) => [...principal].slice(0, longestName).join("");

/** A keytab need not belong to a project: only one that is named here counts. */
const projectIdOf = async (api: Api, { project }: { readonly project?: string }) =>
  project === undefined ? undefined : findProjectId(api, project);

export async function list({ compliance: cipherCompliance, ...options }: ListOptions): Promise<void> {
  const api = openSession();
  const { status, realm, principal, source } = options;
  const filters = { status, realm, principal, source, cipherCompliance, projectId: await projectIdOf(api, options) };
  printRecords(
    KeytabListItemSchema,
    await allPages(({ page, perPage: limit }) => api(KeytabService).listKeytabs({ ...filters, page, limit })),
    [
      ["NAME", ({ name }) => name],
      ["PRINCIPAL", ({ principal }) => principal],
      ["KVNO", ({ kvno }) => String(kvno)],
      ["STATUS", ({ status }) => status],
      ["COMPLIANCE", ({ cipherCompliance }) => cipherCompliance],
      ["VERSION", ({ version }) => String(version)],
      ["EXPIRES", ({ expiresAt }) => timeText(expiresAt)],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function get(id: string, options: Json): Promise<void> {
  printRecord(
    KeytabSchema,
    await openSession()(KeytabService).getKeytab({ id }),
    [
      ["name", ({ name }) => name],
      ["id", ({ id }) => id],
      ["principal", ({ principal }) => principal],
      ["kvno", ({ kvno }) => String(kvno)],
      ["types", ({ encryptionTypes }) => encryptionTypes.join(", ")],
      ["compliance", ({ cipherCompliance }) => cipherCompliance],
      ["status", ({ status }) => status],
      ["expires", ({ expiresAt }) => timeText(expiresAt)],
      ["version", ({ version }) => String(version)],
      ["entries", ({ entryCount }) => String(entryCount)],
      ["hash", ({ keytabHash }) => keytabHash],
      ["source", ({ source }) => source],
      ["project", ({ projectId }) => projectId ?? "-"],
      ["created", ({ createdAt }) => timeText(createdAt)],
      ["updated", ({ updatedAt }) => timeText(updatedAt)],
      ["notes", ({ notes }) => notes],
    ],
    options,
  );
}

/** Gives the very bytes of the file to standard output or to a file, though to no terminal. */
export async function download(id: string, { output, version }: DownloadOptions): Promise<void> {
  if (output === undefined && process.stdout.isTTY)
    throw usage("keys are not for a terminal; name a file with --output");
  const pieces: Uint8Array[] = [];
  for await (const { data } of openSession()(KeytabService).downloadKeytab({ id, version })) pieces.push(data);
  const bytes = Buffer.concat(pieces);
  if (output === undefined) return print(bytes);
  await writeOwnerFile(output, bytes);
  note(`wrote ${output}, for its owner only`);
}

export async function replace(id: string, file: string, options: ReplaceOptions): Promise<void> {
  const keytabData = await readKeytabBytes(file);
  const { reason: changeReason = "" } = options;
  const keytab = await openSession()(KeytabService).updateKeytab({ id, keytabData, changeReason });
  show(`${keytab.name} is at version ${keytab.version}`, keytab, options);
}

export async function history(id: string, options: Json): Promise<void> {
  const { data } = await openSession()(KeytabService).listKeytabHistory({ id });
  printRecords(
    KeytabVersionSchema,
    data,
    [
      ["VERSION", ({ version }) => String(version)],
      ["CREATED", ({ createdAt }) => timeText(createdAt)],
      ["KVNO", ({ kvno }) => String(kvno)],
      ["TYPES", ({ encryptionTypes }) => encryptionTypes.join(", ")],
      ["HASH", ({ keytabHash }) => keytabHash],
      ["BY", ({ changedBy }) => changedBy],
      ["REASON", ({ changeReason }) => changeReason],
    ],
    options,
  );
}

export async function remove(id: string, { yes }: RemoveOptions): Promise<void> {
  if (!yes && !(await askConsent(`Delete ${id}?`, "agree with --yes"))) return note("nothing was deleted");
  await openSession()(KeytabService).deleteKeytab({ id });
  note(`deleted ${id}; its versions stay for the audit, and the file may be imported again`);
}

function show(sentence: string, keytab: Keytab, options: Json): void {
  if (options.json) printRestRecord(KeytabSchema, keytab);
  else say(`${sentence}; ${keytab.principal}, kvno ${keytab.kvno}: ${keytab.cipherCompliance}`);
}
