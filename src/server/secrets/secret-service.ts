import type { KeyObject } from "node:crypto";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import * as pb from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import { authorizeInProject, findProject } from "../auth/find-project.ts";
import { millis } from "../db/columns.ts";
import { run } from "../db/database.ts";
import { Conditions, fetchPage } from "../db/page.ts";
import { timestampOf } from "../db/timestamp.ts";
import { duplicate, invalidField, notFound, referenceNotFound, violates } from "../errors.ts";
import type { Seal } from "../seal/seal.ts";
import { type Call, callOf } from "../wire/call.ts";
import { expectVersion } from "../wire/expected-version.ts";
import { mentions } from "../wire/update-mask.ts";
import { addVersion } from "./add-version.ts";
import { listConsumers } from "./consumers.ts";
import { dataKeyOf } from "./data-key.ts";
import { expireKey, recordExpiry } from "./expiry.ts";
import { findActive, findInAnyState } from "./find-secret.ts";
import type { Secret } from "./secret.ts";
import { isExpired, listItem, record, type SecretFields, selectListFields } from "./secret-record.ts";
import { keyOfCopy, storeSecret, valuePlace } from "./store-secret.ts";
import type { ValueReader } from "./value-reader.ts";

const mostMetadataBytes = 16 * 1024;

interface VersionRow {
  readonly version: number;
  readonly created_at: number;
  readonly created_by: string;
  readonly change_type: string;
  readonly change_reason: string;
  readonly source_version: number | null;
  readonly grace_ends_at: number | null;
}

/** The methods of secret_service.proto. */
export class SecretService implements ServiceImpl<typeof pb.SecretService> {
  readonly #seal: Seal;
  readonly #values: ValueReader;

  constructor(seal: Seal, values: ValueReader) {
    this.#seal = seal;
    this.#values = values;
  }

  async createSecret(request: pb.CreateSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const { key, projectId, changeReason, metadata } = request;
    call.about({ name: key, reason: changeReason });
    if (metadata !== undefined && Buffer.byteLength(JSON.stringify(metadata)) > mostMetadataBytes) {
      throw invalidField("metadata", `must be at most ${mostMetadataBytes} bytes as JSON`);
    }
    await authorizeInProject(call, projectId);
    const created = await storeSecret(call, this.#seal, {
      projectId,
      key,
      environment: request.environment || null,
      type: request.type ?? "generic",
      description: request.description,
      tags: request.tags,
      metadata,
      ttlHours: request.ttlHours,
      rotationEnabled: request.rotation?.enabled ?? false,
      rotationIntervalDays: request.rotation?.intervalDays,
      changeReason,
      value: Buffer.from(request.value ?? ""),
    });
    call.about({ id: created.id, details: { version: 1 } });
    return record(created);
  }

  async listSecrets(request: pb.ListSecretsRequest, context: HandlerContext) {
    const call = callOf(context);
    const { environment, search, tag, type, status = "active", page, perPage } = request;
    const { projectId } = request;
    await authorizeInProject(call, projectId);
    if (status !== "active") call.authorizeIn(projectId, "secret:archive");
    const where = new Conditions()
      .add("s.project_id = ?", projectId)
      .add("s.organization_id = ?", call.caller.organizationId)
      .contains('s.key collate "default"', search) // the column's own collation knows the case of ASCII only
      .add("? = any(s.tags)", tag)
      .add("s.type = ?", type);
    if (environment === "") where.require("s.environment is null");
    else where.add("s.environment = ?", environment);
    if (status === "deleted") where.require(`(s.status = 'deleted' or ${isExpired})`);
    else where.add("s.status = ?", status).require(`not ${isExpired}`);
    const select = { columns: selectListFields, from: "secret s", where, orderBy: "s.key, s.id" };
    const { rows, pagination } = await fetchPage<SecretFields>(call, select, { page, perPage });
    if (pagination.total === 0) await findProject(call, projectId, "project_id");
    return { data: rows.map(listItem), pagination };
  }

  async getSecret(request: pb.GetSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const { version, view } = request;
    call.about({ id: request.id });
    const { organizationId } = call.caller;
    const row = await this.#values.read({ organizationId, id: request.id, version });
    if (row === undefined) throw notFound(version === undefined ? "secret" : "secret or version");
    const { id } = row;
    call.about({ id, name: row.key, projectId: row.projectId, details: { version: row.shownVersion } });
    call.authorizeIn(row.projectId);
    call.headers["etag"] = `"${row.shownVersion}"`;
    const shown = { ...record(row), version: row.shownVersion };
    if (view === "metadata") {
      call.action = "";
      return shown;
    }
    if (isKnown(call, row.shownVersion)) {
      call.action = "secret.check";
      call.status = 304;
      return shown;
    }
    const key = await this.#seal.dataKey(call, organizationId, id, row.wrapped);
    const value = this.#seal.open(key, valuePlace(organizationId, id, row.shownVersion), row.sealed);
    return { ...shown, value: value.toString("utf8") };
  }

  async updateSecret(request: pb.UpdateSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findActive(call, request.id);
    call.about({ reason: request.changeReason });
    expectVersion(secret, request.expectedVersion);
    const mentioned = mentions(pb.UpdateSecretRequestSchema, request);
    const { now } = call;
    const description = mentioned("description") ? (request.description ?? "") : undefined;
    secret.describe(now, description, mentioned("tags") ? request.tags : undefined);
    const { rotation, value } = request;
    const enabled = mentioned("rotation.enabled") ? rotation?.enabled : undefined;
    const intervalDays = mentioned("rotation.interval_days") ? rotation?.intervalDays : undefined;
    if (enabled !== undefined || intervalDays !== undefined) secret.setRotation(now, enabled, intervalDays);
    if (value !== undefined && mentioned("value")) {
      const version = await addVersion(call, this.#seal, secret, await dataKeyOf(call, this.#seal, secret), {
        value: Buffer.from(value),
        changeType: "manual_update",
        createdBy: call.caller.id,
        reason: request.changeReason,
      });
      call.about({ details: { version } });
    }
    return record(secret);
  }

  async deleteSecret({ id }: pb.DeleteSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    (await findActive(call, id)).delete(call.now);
    return {};
  }

  async listSecretVersions({ id }: pb.ListSecretVersionsRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findActive(call, id);
    const rows = await call.query<VersionRow>(
      `select version, ${millis("created_at")} as created_at, created_by, change_type, change_reason, source_version,
         ${millis("grace_ends_at")} as grace_ends_at
       from secret_version where secret_id = $1 order by version desc`,
      [secret.id],
    );
    return { data: rows.map(versionAnswer) };
  }

  async listSecretConsumers({ id, ...selection }: pb.ListSecretConsumersRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findActive(call, id);
    return listConsumers(call, secret.id, selection);
  }

  async rollbackSecret(request: pb.RollbackSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findActive(call, request.id);
    call.about({ reason: request.changeReason });
    expectVersion(secret, request.expectedVersion);
    const target = request.version ?? 0;
    const key = await dataKeyOf(call, this.#seal, secret);
    const version = await addVersion(call, this.#seal, secret, key, {
      value: await this.#valueOf(call, secret, key, target),
      changeType: "rollback",
      createdBy: call.caller.id,
      reason: request.changeReason,
      source: target,
    });
    call.about({ details: { version } });
    return { ...record(secret), rolledBackTo: target };
  }

  async copySecret(request: pb.CopySecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const source = await findActive(call, request.id);
    call.about({ reason: request.changeReason });
    const project = await findProject(call, request.targetProjectId ?? source.projectId, "target_project_id");
    call.authorizeIn(project.id, call.targetPermission);
    const version = request.version ?? source.version;
    const value = await this.#valueOf(call, source, await dataKeyOf(call, this.#seal, source), version);
    const environment = (request.targetEnvironment ?? source.environment) || null;
    const key = request.key ?? keyOfCopy(source, project, environment);
    const copy = await storeSecret(call, this.#seal, {
      projectId: project.id,
      key,
      environment,
      type: source.type,
      description: source.description,
      tags: source.tags,
      metadata: source.metadata,
      ttlHours: request.ttlHours,
      rotationEnabled: false,
      rotationIntervalDays: undefined,
      changeReason: request.changeReason,
      value,
    });
    const read = { id: source.id, name: source.key, projectId: source.projectId, details: { version } };
    call.alsoRecord("secret.read_value", read);
    call.about({
      id: copy.id,
      name: key,
      projectId: project.id,
      details: { source_id: source.id, source_version: version },
    });
    return { ...record(copy), copiedFrom: { secretId: source.id, version } };
  }

  async archiveSecret({ id }: pb.ArchiveSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findInAnyState(call, id);
    if (secret.lifecycle === "deleted") throw notFound("secret");
    secret.archive(call.now);
    return record(secret);
  }

  async restoreSecret({ id, ttlHours }: pb.RestoreSecretRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findInAnyState(call, id);
    if (secret.awaitsSweep) recordExpiry(call, secret);
    else await expireKey(call, secret.projectId, secret.keyEnvironment, secret.key);
    secret.restore(call.now, ttlHours);
    await call.em.flush().catch((error: unknown) => {
      throw violates(error, "secret_project_id_key_key") ? duplicate("key", "already exists in this project") : error;
    });
    return record(secret);
  }

  async deleteSecretPermanently({ id }: pb.DeleteSecretPermanentlyRequest, context: HandlerContext) {
    const call = callOf(context);
    const secret = await findInAnyState(call, id);
    if (secret.awaitsSweep) recordExpiry(call, secret);
    await run(call.em, "delete from data_key where record_id = $1", [id]);
    call.em.remove(secret);
    return {};
  }

  async #valueOf(call: Call, secret: Secret, key: KeyObject, version: number): Promise<Buffer> {
    const [row] = await call.query<{ sealed: Buffer }>(
      "select sealed from secret_version where secret_id = $1 and version = $2",
      [secret.id, version],
    );
    if (row === undefined) throw referenceNotFound("version", "version");
    return this.#seal.open(key, valuePlace(secret.organizationId, secret.id, version), row.sealed);
  }
}

/** Whether the caller says by If-None-Match that it has this version already (G-11.6); gRPC has no such answer. */
function isKnown(call: Call, version: number): boolean {
  const header = call.source.door === "rest" ? call.source.header("if-none-match") : undefined;
  if (header === undefined) return false;
  return header.split(",").some((tag) => tag.trim() === "*" || tag.trim().replace(/^W\//, "") === `"${version}"`);
}

const versionAnswer = (row: VersionRow) => ({
  version: row.version,
  createdAt: timestampOf(row.created_at),
  createdBy: row.created_by,
  changeType: row.change_type,
  changeReason: row.change_reason,
  sourceVersion: row.source_version ?? undefined,
  graceEndsAt: timestampOf(row.grace_ends_at),
});
