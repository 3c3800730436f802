import type { KeyObject } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { run } from "../db/database.ts";
import type { Task, TaskContent } from "../gateways/gateway-work.ts";
import type { Seal } from "../seal/seal.ts";
import { valuePlace } from "../secrets/store-secret.ts";
import type { Work } from "../system-work.ts";
import { type Candidates, handOut, handOutNone } from "./candidates.ts";
import { isActive } from "./config-row.ts";
import { candidateColumns, keepCandidates, openCandidates, type SealedCandidates } from "./kept-candidates.ts";
import { newValue, targetOf } from "./providers.ts";
import { credentialsPlace } from "./rotation-places.ts";
import { stopRotations } from "./stop-rotations.ts";

/** A task that was just claimed: by a gateway of an environment, or by the server itself. */
export interface ClaimedTask extends Pick<Task, "configId" | "organizationId" | "secretId" | "type"> {
  readonly environment: string | null;
}

/** What a task is done with, and where its secret is used. */
export interface Content extends TaskContent {
  /** The secret's; none when it has none. */
  readonly environment: string | null;
}

interface Row extends SealedCandidates {
  readonly key: string;
  readonly project_id: string;
  readonly environment: string | null;
  readonly version: number;
  readonly sealed: Buffer;
  readonly wrapped: Buffer;
  readonly provider: string;
  readonly settings: JsonObject;
  readonly credentials: Buffer | null;
}

/** All that a task is done with, in one statement; nothing when there is nothing any more to be done in its environment. */
const selectMaterial = `select s.key, s.project_id, s.environment, s.version, v.sealed, k.wrapped, c.provider,
    c.provider_settings as settings, c.credentials, ${candidateColumns}
  from secret s
  join rotation_config c on c.id = s.rotation_config_id and c.id = $3 and c.gateway_environment is not distinct from $4
  join secret_version v on v.secret_id = s.id and v.version = s.version
  join data_key k on k.record_id = s.id
  where s.id = $1 and s.organization_id = $2 and ${isActive}`;

/** Nobody else changes the candidates meanwhile, which is what makes them those of this attempt. */
const lockMaterial = `${selectMaterial} for no key update of c`;

/**
 * What whoever has just claimed a task is given, in the transaction of the claim. Of a rotation that is the candidate,
 * which counts as handed out. A rotation that is to be no more ends here; then there is nothing.
 */
export async function contentOf(work: Work, seal: Seal, task: ClaimedTask): Promise<Content | undefined> {
  const { organizationId, secretId, configId, environment, type } = task;
  const isRotation = type === "rotate_secret";
  const values = [secretId, organizationId, configId, environment];
  const [row] = await run<Row>(work.em, isRotation ? lockMaterial : selectMaterial, values);
  if (row === undefined) {
    if (isRotation) await stopRotations(work.em, [task]);
    return undefined;
  }
  const key = await seal.dataKey(work, organizationId, secretId, row.wrapped);
  const current = seal.open(key, valuePlace(organizationId, secretId, row.version), row.sealed).toString();
  const { driverName, settings } = targetOf(row.provider, row.settings);
  const about = {
    key: row.key,
    projectId: row.project_id,
    environment: row.environment,
    driver: driverName,
    settings,
    credentials: row.credentials === null ? {} : opened(seal, key, task, row.credentials),
  };
  if (!isRotation) return { ...about, value: current, previousValue: undefined, earlierCandidates: [] };
  const { candidate = "", earlier } = await nextCandidates(work, seal, key, task, row, current);
  return { ...about, value: candidate, previousValue: current, earlierCandidates: earlier };
}

function opened(seal: Seal, key: KeyObject, owner: ClaimedTask, sealed: Buffer): JsonObject {
  return JSON.parse(seal.open(key, credentialsPlace(owner), sealed).toString()) as JsonObject;
}

/**
 * The candidates for the attempt that begins. Where the target makes the values there is no candidate, which is also how
 * a gateway's report is told apart later.
 */
async function nextCandidates(
  { em }: Work,
  seal: Seal,
  key: KeyObject,
  task: ClaimedTask,
  row: Row,
  current: string,
): Promise<Candidates> {
  const before = openCandidates(seal, key, task, row);
  const { provider, settings } = row;
  const next = targetOf(provider, settings).mints
    ? handOutNone(before)
    : handOut(before, () => newValue(provider, settings, current));
  await keepCandidates(em, seal, key, task, next);
  return next;
}
