import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import * as pb from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { authorizeInProject, findProject } from "../auth/find-project.ts";
import type { Core } from "../context.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import { callOf } from "../wire/call.ts";
import { expectVersion } from "../wire/expected-version.ts";
import { mentions } from "../wire/update-mask.ts";
import { checkCompliance, refreshCompliance } from "./compliance.ts";
import { readDashboard } from "./dashboard.ts";
import { fileName, openFile, piecesOf } from "./download.ts";
import { findKeytab, lockKeytab } from "./find-keytab.ts";
import { readKeytab } from "./keytab-file.ts";
import { type KeytabListFields, keytabId, lifecycle, listItem, record, selectListFields } from "./keytab-record.ts";
import { replaceFile, storeKeytab } from "./store-keytab.ts";

interface VersionRow {
  readonly id: string;
  readonly version: number;
  readonly encryption_types: string[];
  readonly kvno: number;
  readonly keytab_hash: string;
  readonly changed_by: string;
  readonly change_reason: string;
  readonly created_at: string;
}

/** The methods of keytab_service.proto. */
export class KeytabService implements ServiceImpl<typeof pb.KeytabService> {
  readonly #core: Pick<Core, "config" | "logger" | "seal">;

  constructor(core: Pick<Core, "config" | "logger" | "seal">) {
    this.#core = core;
  }

  async importKeytab(request: pb.ImportKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    const { name, notes, keytabData, projectId = null, expiresAt } = request;
    call.about({ name });
    const keytab = await storeKeytab(call, this.#core.seal, {
      bytes: keytabData,
      name,
      projectId,
      expiresAt: expiresAt === undefined ? null : timestampDate(expiresAt),
      notes,
      source: "import",
      changeReason: "imported",
    });
    return record(keytab);
  }

  async listKeytabs(request: pb.ListKeytabsRequest, context: HandlerContext) {
    const call = callOf(context);
    const { projectId, status, cipherCompliance, realm, principal, source, page, limit: perPage } = request;
    if (projectId !== undefined) await authorizeInProject(call, projectId);
    const where = new Conditions()
      .add("k.organization_id = ?", call.caller.organizationId)
      .require("k.deleted_at is null")
      .add("k.project_id = any(?)", call.visibleProjects)
      .add("k.project_id = ?", projectId)
      .add(`${lifecycle} = ?`, status)
      .add("k.cipher_compliance = ?", cipherCompliance)
      .add("lower(k.realm) = lower(?)", realm)
      .contains("k.principal", principal)
      .add("k.source = ?", source);
    const select = { columns: selectListFields, from: "keytab k", where, orderBy: "k.created_at desc, k.id desc" };
    const { rows, pagination } = await fetchPage<KeytabListFields>(call, select, { page, perPage });
    const { total } = pagination;
    if (projectId !== undefined && total === 0) await findProject(call, projectId, "project_id");
    return { data: rows.map(listItem), total, page: pagination.page, limit: pagination.perPage };
  }

  async getKeytab({ id }: pb.GetKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    const keytab = await findKeytab(call, id);
    call.headers["etag"] = `"${keytab.version}"`;
    return record(keytab);
  }

  async updateKeytab(request: pb.UpdateKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    const { now } = call;
    const keytab = await lockKeytab(call, request.id);
    call.about({ reason: request.changeReason });
    const mentioned = mentions(pb.UpdateKeytabRequestSchema, request);
    const bytes = mentioned("keytab_data") ? request.keytabData : undefined;
    const file = bytes === undefined ? undefined : readKeytab(bytes);
    expectVersion(keytab, request.expectedVersion);
    const { name, notes = "", expiresAt, status } = request;
    keytab.describe(now, mentioned("name") ? name : undefined, mentioned("notes") ? notes : undefined);
    const end = expiresAt === undefined ? null : timestampDate(expiresAt);
    keytab.setLife(
      now,
      mentioned("expires_at") ? end : undefined,
      mentioned("status") ? (status as "active" | "disabled" | undefined) : undefined,
    );
    if (file !== undefined) await replaceFile(call, this.#core.seal, keytab, file, request.changeReason);
    call.about({ name: keytab.name });
    return record(keytab);
  }

  async deleteKeytab({ id }: pb.DeleteKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    (await lockKeytab(call, id)).delete(call.now);
    return {};
  }

  async *downloadKeytab({ id, version }: pb.DownloadKeytabRequest, context: HandlerContext) {
    const call = callOf(context);
    const { bytes, hash } = await openFile(call, this.#core.seal, id, version);
    call.headers["content-disposition"] = `attachment; filename="${fileName(bytes)}"`;
    call.headers["etag"] = `"${hash}"`;
    if (call.source.door === "rest") call.headers["content-length"] = String(bytes.length);
    for (const data of piecesOf(bytes)) yield { contentType: "application/octet-stream", data };
  }

  async listKeytabHistory({ id }: pb.ListKeytabHistoryRequest, context: HandlerContext) {
    const call = callOf(context);
    const keytab = await findKeytab(call, id);
    const rows = await call.query<VersionRow>(
      `select id, version, encryption_types, kvno::float8 as kvno, keytab_hash, changed_by, change_reason, created_at
       from keytab_version where keytab_id = $1 order by version desc`,
      [keytab.id],
    );
    return { data: rows.map((row) => ({ ...versionRecord(row), keytabId: keytabId(keytab.id) })) };
  }

  async checkKeytabCompliance({ id }: pb.CheckKeytabComplianceRequest, context: HandlerContext) {
    const { compliance, violations } = await checkCompliance(callOf(context), id);
    return { cipherCompliance: compliance, cipherViolations: violations };
  }

  refreshKeytabCompliance(_: pb.RefreshKeytabComplianceRequest, context: HandlerContext) {
    return refreshCompliance(callOf(context), this.#core.logger);
  }

  getKeytabDashboard(_: pb.GetKeytabDashboardRequest, context: HandlerContext) {
    const call = callOf(context);
    return readDashboard(call, call.caller.organizationId, this.#core.config.KEYTAB_EXPIRING_DAYS);
  }
}

const versionRecord = (row: VersionRow) => ({
  id: row.id,
  version: row.version,
  encryptionTypes: row.encryption_types,
  kvno: row.kvno,
  keytabHash: row.keytab_hash,
  changedBy: row.changed_by,
  changeReason: row.change_reason,
  createdAt: timestampOf(row.created_at),
});
