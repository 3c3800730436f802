import { defineEntity, p } from "@mikro-orm/core";
import { Project } from "../auth/project.ts";
import { createdAt, id, tenantFilter, time, updatedAt } from "../db/columns.ts";
import { wrongState } from "../errors.ts";

/** What the record of a keytab says of its file. */
export interface KeytabContents {
  readonly principal: string;
  readonly realm: string;
  readonly kvno: number;
  readonly encryptionTypes: string[];
  readonly entryCount: number;
  readonly keytabHash: string;
}

const KeytabTable = defineEntity({
  name: "Keytab",
  tableName: "keytab",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    /** A project that has keytabs does not go. Those that are deleted belong to none any more. */
    projectId: () => p.manyToOne(Project).mapToPk().fieldName("project_id").nullable().deleteRule("no action"),
    name: p.text(),
    principal: p.text(),
    realm: p.text(),
    /** Unsigned, 32 bits. */
    kvno: p.bigint("number"),
    encryptionTypes: p.array().columnType("text[]"),
    /** What was asked for: a keytab whose time is over counts as expired before the sweep says so. */
    status: p.enum(["active", "disabled", "expired"] as const).default("active"),
    cipherCompliance: p.enum(["compliant", "warning", "non_compliant"] as const),
    source: p.enum(["import", "discovered", "agent"] as const),
    version: p.integer().default(1),
    entryCount: p.integer(),
    keytabHash: p.text(),
    expiresAt: time().nullable(),
    notes: p.text().default(""),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
    deletedAt: time().nullable(),
    /** Whether expires_at is past, by the database's clock, which all replicas share. */
    isOver: p
      .boolean()
      .formula((columns) => `coalesce(${String(columns["expiresAt"])} <= now(), false)`)
      .persist(false),
  },
  indexes: [
    { name: "keytab_organization_id_created_at_index", properties: ["organizationId", "createdAt", "id"] },
    {
      name: "keytab_expires_at_index",
      properties: ["expiresAt"],
      where: "expires_at is not null and status = 'active' and deleted_at is null",
    },
    { name: "keytab_project_id_index", properties: ["projectId"] },
    {
      name: "keytab_organization_id_principal_index",
      // A principal may be longer than an index takes.
      expression: `create index "keytab_organization_id_principal_index" on "keytab" ("organization_id", hashtextextended(principal, 0), "kvno") where deleted_at is null`,
    },
  ],
  uniques: [
    {
      name: "keytab_organization_id_keytab_hash_key",
      properties: ["organizationId", "keytabHash"],
      where: "deleted_at is null",
    },
  ],
  filters: tenantFilter,
});

/** A keytab file under management: what its current version holds. The file itself is in the versions. */
export class Keytab extends KeytabTable.class {
  /** Expired from that instant on, whether the sweep has come by or not; disabled stays disabled (G-6.4). */
  get lifecycle(): "active" | "disabled" | "expired" {
    return this.awaitsSweep ? "expired" : this.status;
  }

  /** Its time is over, and nobody has written that down yet. */
  get awaitsSweep(): boolean {
    return this.status === "active" && this.isOver === true;
  }

  /** What is left out stays as it is; what is equal is no change, and updated_at stands. */
  describe(now: Date, name = this.name, notes = this.notes): void {
    if (name === this.name && notes === this.notes) return;
    this.name = name;
    this.notes = notes;
    this.updatedAt = now;
  }

  /**
   * What is left out stays as it is, and null takes the end away. One that is expired lives again when its end moves to
   * the future, and has no other status until then (G-6.4).
   */
  setLife(now: Date, expiresAt: Date | null | undefined, status: "active" | "disabled" | undefined): void {
    const wasExpired = this.lifecycle === "expired";
    if (expiresAt !== undefined && expiresAt?.getTime() !== this.expiresAt?.getTime()) {
      this.expiresAt = expiresAt;
      this.isOver = expiresAt !== null && expiresAt <= now;
      this.updatedAt = now;
    }
    if (this.isOver === true && (wasExpired || status === "active") && status !== undefined) {
      throw wrongState("the keytab is expired: expires_at must move to the future, or be null");
    }
    const lives = wasExpired && this.isOver !== true ? "active" : this.status;
    this.setStatus(now, status ?? lives);
  }

  expire(): void {
    this.status = "expired";
  }

  /** Numbers only rise. Returns the new one. */
  replaceFile(now: Date, contents: KeytabContents, cipherCompliance: Keytab["cipherCompliance"]): number {
    Object.assign(this, contents, { cipherCompliance });
    this.version += 1;
    this.updatedAt = now;
    return this.version;
  }

  /** Keeps the verdict of a check. */
  keepVerdict(now: Date, cipherCompliance: Keytab["cipherCompliance"]): void {
    if (cipherCompliance === this.cipherCompliance) return;
    this.cipherCompliance = cipherCompliance;
    this.updatedAt = now;
  }

  /** Softly. Its project can go then; which it was is in the audit log. */
  delete(now: Date): void {
    this.deletedAt = now;
    this.updatedAt = now;
    this.projectId = null;
  }

  // Not #private: the entity manager makes entities without running constructors, and so without private methods.
  private setStatus(now: Date, status: Keytab["status"]): void {
    if (status === this.status) return;
    this.status = status;
    this.updatedAt = now;
  }
}
KeytabTable.setClass(Keytab);

/** One file of a keytab, sealed. (keytab, version) is unique: of two writers of one version, one fails. */
export const KeytabVersion = defineEntity({
  name: "KeytabVersion",
  tableName: "keytab_version",
  properties: {
    id: id(),
    keytabId: () => p.manyToOne(Keytab).mapToPk().fieldName("keytab_id").deleteRule("cascade"),
    version: p.integer(),
    organizationId: p.uuid(),
    sealed: p.blob(),
    encryptionTypes: p.array().columnType("text[]"),
    kvno: p.bigint("number"),
    keytabHash: p.text(),
    changedBy: p.uuid(),
    changeReason: p.text().default(""),
    createdAt: createdAt(),
  },
  uniques: [{ name: "keytab_version_keytab_id_version_key", properties: ["keytabId", "version"] }],
  filters: tenantFilter,
});
