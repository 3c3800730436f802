import type { KeyObject } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { generateValue } from "../../standards/generated-value.ts";
import { run } from "../db/database.ts";
import type { Task, TaskContent } from "../gateways/gateway-work.ts";
import type { Seal } from "../seal/seal.ts";
import { valuePlace } from "../secrets/store-secret.ts";
import type { Call } from "../wire/call.ts";
import { isActive } from "./config-row.ts";
import { driverOf, generationOf } from "./providers.ts";
import { candidatePlace, credentialsPlace } from "./rotation-places.ts";
import { stopRotations } from "./stop-rotations.ts";

interface Row {
  readonly key: string;
  readonly project_id: string;
  readonly version: number;
  readonly sealed: Buffer;
  readonly wrapped: Buffer;
  readonly settings: JsonObject;
  readonly credentials: Buffer | null;
  readonly candidate: Buffer | null;
}

/** All that a task is done with, in one statement; nothing when there is nothing any more to be done in its environment. */
const selectMaterial = `select s.key, s.project_id, s.version, v.sealed, k.wrapped, c.provider_settings as settings,
    c.credentials, c.candidate
  from secret s
  join rotation_config c on c.id = s.rotation_config_id and c.id = $3 and c.gateway_environment = $4
  join secret_version v on v.secret_id = s.id and v.version = s.version
  join data_key k on k.record_id = s.id
  where s.id = $1 and s.organization_id = $2 and ${isActive}`;

/** What the gateway that has just claimed a task is given. A rotation that is to be no more ends here. */
export async function contentOf(call: Call, seal: Seal, task: Task): Promise<TaskContent | undefined> {
  const { organizationId, secretId, configId, environment } = task;
  const [row] = await run<Row>(call.em, selectMaterial, [secretId, organizationId, configId, environment]);
  if (row === undefined) {
    if (task.type === "rotate_secret") await stopRotations(call.em, [task]);
    return undefined;
  }
  const key = await seal.dataKey(call, organizationId, secretId, row.wrapped);
  const value = seal.open(key, valuePlace(organizationId, secretId, row.version), row.sealed).toString();
  const isRotation = task.type === "rotate_secret";
  const driver = driverOf(row.settings);
  return {
    key: row.key,
    projectId: row.project_id,
    driver: driver.name,
    settings: driver.settings,
    credentials: row.credentials === null ? {} : opened(seal, key, task, row.credentials),
    value: isRotation ? await candidateOf(call, seal, key, task, row) : value,
    previousValue: isRotation ? value : undefined,
  };
}

function opened(seal: Seal, key: KeyObject, owner: Task, sealed: Buffer): JsonObject {
  return JSON.parse(seal.open(key, credentialsPlace(owner), sealed).toString()) as JsonObject;
}

/**
 * The value to be. It is made at the first attempt and kept, since the target may have it already when the next one
 * begins (G-3.2). Where the target makes the values there is none, which is also how a report is told apart later.
 */
async function candidateOf(call: Call, seal: Seal, key: KeyObject, task: Task, row: Row): Promise<string> {
  const { mints } = driverOf(row.settings);
  if (row.candidate !== null && !mints) return seal.open(key, candidatePlace(task), row.candidate).toString();
  const candidate = mints ? "" : generateValue(generationOf(row.settings));
  await run(call.em, "update rotation_config set candidate = $3 where id = $1 and organization_id = $2", [
    task.configId,
    task.organizationId,
    mints ? null : seal.seal(key, candidatePlace(task), Buffer.from(candidate)),
  ]);
  return candidate;
}
