import { defineEntity, p } from "@mikro-orm/core";
import { tenantFilter, time, updatedAt } from "../db/columns.ts";
import { Gateway } from "../gateways/gateway.ts";
import { Secret } from "../secrets/secret.ts";

/**
 * How a secret is rotated, where that was ever said or done: a secret without this row has the usual configuration. Its
 * id stands in the secret from birth, and so do the schedule and whether there is one.
 */
export const RotationConfig = defineEntity({
  name: "RotationConfig",
  tableName: "rotation_config",
  properties: {
    id: p.uuid().primary(),
    organizationId: p.uuid(),
    secretId: () => p.manyToOne(Secret).mapToPk().fieldName("secret_id").deleteRule("cascade"),
    provider: p.text().default("generated_value"),
    providerSettings: p.json<Record<string, unknown>>().defaultRaw("'{}'"),
    /** JSON, sealed under the secret's key. */
    credentials: p.blob().nullable(),
    /** Whose active gateway applies the value; none where the server does. */
    gatewayEnvironment: p.text().nullable(),
    /** How long after a rotation the value before is to be of use still; nothing happens then by itself. */
    gracePeriodDays: p.integer().default(0),
    /** The value to be, sealed under the secret's key: the same for up to three attempts, gone with success (G-3.2). */
    candidate: p.blob().nullable(),
    /** How often the candidate was handed to whoever applies it. */
    candidateAttempts: p.integer().default(0),
    /** An attempt ended with nobody knowing whether the target has the candidate. */
    unresolved: p.boolean().default(false),
    /** Candidates given up that the target may have all the same: a JSON array, sealed under the secret's key. */
    earlierCandidates: p.blob().nullable(),
    lastStatus: p.enum(["never", "running", "succeeded", "failed"] as const).default("never"),
    lastErrorCode: p.text().nullable(),
    lastErrorMessage: p.text().nullable(),
    lastErrorAt: time().nullable(),
    consecutiveFailures: p.integer().default(0),
    /** When it was last recorded that rotations fail: with the first failure, and daily then (G-3.3). */
    failureToldAt: time().nullable(),
    updatedAt: updatedAt(),
  },
  uniques: [{ name: "rotation_config_secret_id_key", properties: ["secretId"] }],
  indexes: [
    {
      name: "rotation_config_gateway_index",
      properties: ["organizationId", "gatewayEnvironment", "id"],
      where: "gateway_environment is not null",
    },
  ],
  filters: tenantFilter,
});

/** What a gateway found out of a configuration while it stood by: whether it would work after a failover. */
export const GatewayReadiness = defineEntity({
  name: "GatewayReadiness",
  tableName: "gateway_readiness",
  properties: {
    gatewayId: () => p.manyToOne(Gateway).mapToPk().fieldName("gateway_id").deleteRule("cascade").primary(),
    configId: () => p.manyToOne(RotationConfig).mapToPk().fieldName("config_id").deleteRule("cascade").primary(),
    organizationId: p.uuid(),
    /** Why it does not work; none when it does. */
    error: p.text().nullable(),
    checkedAt: time().defaultRaw("now()"),
  },
  indexes: [{ name: "gateway_readiness_config_id_index", properties: ["configId"] }],
  filters: tenantFilter,
});
