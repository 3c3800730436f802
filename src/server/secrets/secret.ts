import { defineEntity, p } from "@mikro-orm/core";
import { Project } from "../auth/project.ts";
import { createdAt, id, tenantFilter, time, updatedAt } from "../db/columns.ts";
import { wrongState } from "../errors.ts";

/** What made a version (G-2.15). */
export type ChangeType = "initial" | "manual_update" | "rotation" | "rollback";

/** Days between rotations when they are enabled without saying how many (G-2.13). */
export const defaultIntervalDays = 30;

export const dayMs = 86_400_000;
export const hourMs = 3_600_000;

const SecretTable = defineEntity({
  name: "Secret",
  tableName: "secret",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    projectId: () => p.manyToOne(Project).mapToPk().fieldName("project_id"),
    key: p.text().collation("C"),
    /** Part of what makes the key unique: the environment under key_scope "environment", otherwise empty. */
    keyEnvironment: p.text().default(""),
    environment: p.text().nullable(),
    type: p.text().default("generic"),
    description: p.text().default(""),
    tags: p.array().columnType("text[]").defaultRaw("'{}'"),
    metadata: p.json<Record<string, unknown>>().defaultRaw("'{}'"),
    status: p.enum(["active", "archived", "deleted"] as const).default("active"),
    version: p.integer().default(1),
    createdBy: p.text(),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
    archivedAt: time().nullable(),
    deletedAt: time().nullable(),
    expiresAt: time().nullable(),
    rotationEnabled: p.boolean().default(false),
    rotationIntervalDays: p.integer().nullable(),
    lastRotated: time().nullable(),
    nextRotation: time().nullable(),
    /** When the scheduler looks at it next, at the latest: when a rotation is due, or a failed one to be tried again. */
    rotationDueAt: time().nullable(),
    /** Of the one rotation configuration that every secret has. */
    rotationConfigId: p.uuid().defaultRaw("uuidv7()").unique("secret_rotation_config_id_key"),
    /** Judged by the database's clock, which all replicas share. */
    expired: p
      .boolean()
      .formula((columns) => `coalesce(${String(columns["expiresAt"])} <= now(), false)`)
      .persist(false),
  },
  uniques: [
    {
      name: "secret_project_id_key_key",
      properties: ["projectId", "keyEnvironment", "key"],
      where: "status <> 'deleted'",
    },
  ],
  indexes: [
    { name: "secret_project_id_status_key_index", properties: ["projectId", "status", "key", "id"] },
    {
      name: "secret_expires_at_index",
      properties: ["expiresAt"],
      where: "expires_at is not null and status <> 'deleted'",
    },
    { name: "secret_organization_id_index", properties: ["organizationId"] },
    {
      name: "secret_rotation_due_at_index",
      properties: ["rotationDueAt"],
      where: "rotation_due_at is not null and status = 'active'",
    },
  ],
  filters: tenantFilter,
});

/** A named value of a project. Its versions are added, never edited. */
export class Secret extends SecretTable.class {
  /** From the instant its life is over a secret is as good as deleted, whether the sweep has come by or not (gaps 2.8). */
  get lifecycle(): "active" | "archived" | "deleted" {
    return this.expired ? "deleted" : this.status;
  }

  /** Its life is over, and nobody has written that down yet. */
  get awaitsSweep(): boolean {
    return this.expired === true && this.status !== "deleted";
  }

  archive(now: Date): void {
    if (this.lifecycle === "archived") throw wrongState("secret is already archived");
    this.status = "archived";
    this.archivedAt = now;
    this.updatedAt = now;
  }

  delete(now: Date): void {
    this.status = "deleted";
    this.deletedAt = now;
    this.updatedAt = now;
  }

  /** Brings the secret back; an overdue rotation starts its interval anew, so that nothing rotates by surprise (G-2.19). */
  restore(now: Date, ttlHours: number | undefined): void {
    if (this.lifecycle === "active") throw wrongState("secret is already active");
    if (ttlHours !== undefined) this.expiresAt = new Date(now.getTime() + ttlHours * hourMs);
    else if (this.expired) this.expiresAt = null;
    this.expired = false;
    this.status = "active";
    this.archivedAt = null;
    this.deletedAt = null;
    this.updatedAt = now;
    if (this.rotationEnabled && this.nextRotation != null && this.nextRotation <= now) this.scheduleFrom(now);
    // A rotation may have been broken off when the secret was left; only the scheduler knows.
    this.rotationDueAt = now;
  }

  /** Numbers only rise, so a rollback is a new version too. Returns the new number. */
  addVersion(now: Date): number {
    this.version += 1;
    this.updatedAt = now;
    return this.version;
  }

  /** What is left out stays as it is; what is equal is no change, and updated_at stands (G-2.13). */
  describe(now: Date, description = this.description, tags: readonly string[] = this.tags): void {
    const distinct = [...new Set(tags)];
    const sameTags = distinct.length === this.tags.length && distinct.every((tag, index) => tag === this.tags[index]);
    if (description === this.description && sameTags) return;
    this.description = description;
    this.tags = distinct;
    this.updatedAt = now;
  }

  /**
   * What is left out stays as it is, and so does all when nothing differs; `next_rotation` exists only while rotation is
   * enabled (G-2.5). Another interval counts from when the one before began: the last rotation, or enabling (G-3.3).
   */
  setRotation(now: Date, enabled: boolean | undefined, intervalDays: number | undefined): void {
    const wasEnabled = this.rotationEnabled;
    const hadInterval = this.rotationIntervalDays;
    if ((enabled ?? wasEnabled) === wasEnabled && (intervalDays ?? hadInterval) === hadInterval) return;
    this.rotationEnabled = enabled ?? wasEnabled;
    this.rotationIntervalDays = intervalDays ?? hadInterval;
    if (!this.rotationEnabled) this.nextRotation = null;
    else {
      this.rotationIntervalDays ??= defaultIntervalDays;
      if (!wasEnabled || this.nextRotation == null) this.scheduleFrom(now);
      else this.scheduleFrom(new Date(this.nextRotation.getTime() - (hadInterval ?? defaultIntervalDays) * dayMs));
    }
    this.updatedAt = now;
  }

  /** It has a new value by rotation, so the next one is due an interval later. */
  rotated(now: Date): void {
    this.lastRotated = now;
    this.rotationDueAt = null;
    if (this.rotationEnabled) this.scheduleFrom(now);
  }

  // Not #private: the entity manager makes entities without running constructors, and so without private methods.
  private scheduleFrom(start: Date): void {
    this.nextRotation = new Date(start.getTime() + (this.rotationIntervalDays ?? defaultIntervalDays) * dayMs);
    // A failed rotation may be due earlier; the scheduler finds out whether anything is to be done then.
    if (this.rotationDueAt == null || this.nextRotation < this.rotationDueAt) this.rotationDueAt = this.nextRotation;
  }
}
SecretTable.setClass(Secret);

/** One value of a secret. (secret, version) is the key: of two writers of one version, one fails. */
export const SecretVersion = defineEntity({
  name: "SecretVersion",
  tableName: "secret_version",
  properties: {
    secretId: () => p.manyToOne(Secret).mapToPk().fieldName("secret_id").deleteRule("cascade").primary(),
    version: p.integer().primary(),
    organizationId: p.uuid(),
    sealed: p.blob(),
    createdAt: createdAt(),
    createdBy: p.text(),
    changeType: p.text(),
    changeReason: p.text().default(""),
    sourceVersion: p.integer().nullable(),
    /** Until when the value was to be of use after the rotation that replaced it. */
    graceEndsAt: time().nullable(),
  },
  filters: tenantFilter,
});
