import { defineEntity, p } from "@mikro-orm/core";
import { MachineIdentity } from "../auth/machine-identity.ts";
import { createdAt, id, tenantFilter, time } from "../db/columns.ts";

/** A program on a host. Its id is that of its machine identity, which has the role agent (G-7.1). */
export const Agent = defineEntity({
  name: "Agent",
  tableName: "agent",
  properties: {
    id: () => p.manyToOne(MachineIdentity).mapToPk().fieldName("id").deleteRule("cascade").primary(),
    organizationId: p.uuid(),
    hostname: p.text(),
    version: p.text().default(""),
    os: p.text().default(""),
    disabledAt: time().nullable(),
    lastHeartbeat: time().nullable(),
    lastScanAt: time().nullable(),
    /** What the last complete scan could not read: objects with `path` and `reason`. */
    scanErrors: p.json().defaultRaw("'[]'"),
    createdAt: createdAt(),
  },
  indexes: [{ name: "agent_organization_id_hostname_index", properties: ["organizationId", "hostname", "id"] }],
  filters: tenantFilter,
});

/** What one agent enrolls with, once; only a keyed hash of it is kept. */
export const AgentEnrollmentToken = defineEntity({
  name: "AgentEnrollmentToken",
  tableName: "agent_enrollment_token",
  properties: {
    id: id(),
    organizationId: p.uuid().index("agent_enrollment_token_organization_id_index"),
    prefix: p.text(),
    hash: p.blob().unique("agent_enrollment_token_hash_key"),
    /** The one host that may use it, in lower case. */
    hostname: p.text().nullable(),
    createdBy: p.uuid(),
    createdAt: createdAt(),
    expiresAt: time(),
    usedAt: time().nullable(),
  },
  filters: tenantFilter,
});

/**
 * A file that an agent is asked for. The row is the command, whichever replica holds the agent's stream, and it holds
 * the answer, sealed, until the call that waits for it has taken it, whichever replica that is on.
 */
export const AgentCommand = defineEntity({
  name: "AgentCommand",
  tableName: "agent_command",
  properties: {
    id: id(),
    organizationId: p.uuid(),
    agentId: () => p.manyToOne(Agent).mapToPk().fieldName("agent_id").deleteRule("cascade"),
    filePath: p.text(),
    expectedHash: p.text(),
    /** pending until the agent has answered; then uploaded, changed or failed. */
    status: p.enum(["pending", "uploaded", "changed", "failed"] as const).default("pending"),
    upload: p.blob().nullable(),
    failure: p.text().nullable(),
    createdAt: createdAt(),
    expiresAt: time(),
  },
  indexes: [
    { name: "agent_command_agent_id_index", properties: ["agentId"], where: "status = 'pending'" },
    { name: "agent_command_expires_at_index", properties: ["expiresAt"] },
  ],
  filters: tenantFilter,
});
