import { defineEntity, p } from "@mikro-orm/core";
import { MachineIdentity } from "../auth/machine-identity.ts";
import { id, tenantFilter, time, updatedAt } from "../db/columns.ts";

/** A program that serves an environment. One of an environment is active, and it holds the environment's lock. */
export const Gateway = defineEntity({
  name: "Gateway",
  tableName: "gateway",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    /** Who it logs in as; none once that is gone. */
    identityId: () => p.manyToOne(MachineIdentity).mapToPk().fieldName("identity_id").deleteRule("set null").nullable(),
    name: p.text(),
    environment: p.text(),
    role: p.enum(["primary", "dr-standby"] as const),
    activationStatus: p.enum(["active", "standby", "failed"] as const).default("standby"),
    /** The process that registered last; what another one says is refused. */
    instanceId: p.uuid(),
    lastHeartbeat: time().defaultRaw("now()"),
    /** From when on its silence counts: the last heartbeat, later by the time in which none could be received (G-8.6). */
    silentSince: time().defaultRaw("now()"),
    hostname: p.text().default(""),
    version: p.text().default(""),
    region: p.text().default(""),
    identityClientId: p.text().default(""),
    deactivatedAt: time().nullable(),
    /** Another one has taken its place, or an operator has removed it: it can no longer register. */
    retiredAt: time().nullable(),
    registeredAt: time().defaultRaw("now()"),
    updatedAt: updatedAt(),
  },
  uniques: [
    { name: "gateway_identity_id_name_key", properties: ["identityId", "name"] },
    {
      name: "gateway_active_key",
      properties: ["organizationId", "environment"],
      where: "activation_status = 'active'",
    },
    {
      name: "gateway_primary_key",
      properties: ["organizationId", "environment"],
      where: "role = 'primary' and retired_at is null",
    },
  ],
  indexes: [{ name: "gateway_organization_id_index", properties: ["organizationId", "environment", "role", "name"] }],
  checks: [{ name: "gateway_retired_check", expression: "retired_at is null or activation_status <> 'active'" }],
  filters: tenantFilter,
});

/**
 * Who holds an environment: the lock and the truth (G-8.8). Whatever changes the activation of gateways locks this row
 * first; whatever a gateway writes shares a lock of it and compares the token. Tokens only rise, also past a release.
 */
export const EnvironmentLock = defineEntity({
  name: "EnvironmentLock",
  tableName: "environment_lock",
  properties: {
    organizationId: p.uuid().primary(),
    environment: p.text().primary(),
    holderId: () => p.manyToOne(Gateway).mapToPk().fieldName("holder_id").deleteRule("no action").nullable(),
    fencingToken: p.bigint("bigint").nullable(),
    lastToken: p.bigint("bigint").defaultRaw("0"),
    acquiredAt: time().nullable(),
  },
  checks: [
    { name: "environment_lock_holder_check", expression: "(holder_id is null) = (fencing_token is null)" },
    { name: "environment_lock_token_check", expression: "fencing_token is null or fencing_token = last_token" },
  ],
  indexes: [{ name: "environment_lock_holder_id_index", properties: ["holderId"] }],
  filters: tenantFilter,
});

/** When the gateways were last looked after: the row is the lock of who does it, and its time tells of an outage. */
export const GatewayMonitor = defineEntity({
  name: "GatewayMonitor",
  tableName: "gateway_monitor",
  properties: {
    id: p.boolean().primary().default(true),
    lastRun: time().defaultRaw("now()"),
  },
  checks: [{ name: "gateway_monitor_id_check", expression: "id" }],
});

/**
 * What a gateway is to do (G-8.20). A task ends once: every write that ends one asks for it to be pending or running.
 * Secret and configuration are no references, since tasks outlive both.
 */
export const GatewayTask = defineEntity({
  name: "GatewayTask",
  tableName: "gateway_task",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    /** None for what the server does by itself. */
    environment: p.text().nullable(),
    gatewayId: () => p.manyToOne(Gateway).mapToPk().fieldName("gateway_id").deleteRule("no action").nullable(),
    type: p.enum(["rotate_secret", "verify_secret"] as const),
    status: p.enum(["pending", "running", "succeeded", "failed", "timed_out", "cancelled"] as const).default("pending"),
    configId: p.uuid(),
    secretId: p.uuid(),
    attempt: p.integer().default(1),
    maxAttempts: p.integer(),
    retryOf: p.uuid().nullable(),
    claimId: p.uuid().nullable(),
    fencingToken: p.bigint("bigint").nullable(),
    /** Who asked for it: the id of an identity, or "system". */
    requestedBy: p.text(),
    changeReason: p.text().default(""),
    createdAt: time().defaultRaw("now()"),
    claimedAt: time().nullable(),
    deadlineAt: time().nullable(),
    finishedAt: time().nullable(),
    error: p.text().nullable(),
    /** Of a rotation that succeeded: the version that it made. */
    version: p.integer().nullable(),
    /** A rotation ended with nobody knowing whether the target has the new value. */
    unresolved: p.boolean().default(false),
  },
  uniques: [
    {
      name: "gateway_task_rotation_key",
      properties: ["configId"],
      where: "type = 'rotate_secret' and status in ('pending', 'running')",
    },
    {
      name: "gateway_task_verification_key",
      properties: ["configId", "gatewayId"],
      where: "type = 'verify_secret' and status in ('pending', 'running')",
    },
  ],
  indexes: [
    // In another order than the primary key has, which PostgreSQL would else walk for few among many.
    { name: "gateway_task_gateway_id_index", properties: ["gatewayId", "createdAt", "id"] },
    { name: "gateway_task_status_index", properties: ["gatewayId", "status", "createdAt", "id"] },
    { name: "gateway_task_config_id_index", properties: ["configId", "createdAt", "id"] },
    {
      name: "gateway_task_open_index",
      properties: ["organizationId", "environment"],
      where: "status in ('pending', 'running')",
    },
    {
      name: "gateway_task_server_index",
      properties: ["createdAt", "id"],
      where: "environment is null and status in ('pending', 'running')",
    },
    { name: "gateway_task_deadline_at_index", properties: ["deadlineAt"], where: "status = 'running'" },
    { name: "gateway_task_finished_at_index", properties: ["finishedAt"], where: "finished_at is not null" },
  ],
  filters: tenantFilter,
});
