import {
  RotateSecretResponseSchema,
  RotationConfigService,
} from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import {
  type Secret,
  SecretListItemSchema,
  SecretSchema,
  SecretService,
  SecretVersionSchema,
} from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { orElseLook } from "../explain.ts";
import { usage } from "../failure.ts";
import {
  findPlace,
  findProjectId,
  findSecretId,
  isId,
  listSecrets,
  type Place,
  type PlaceOptions,
  secretName,
  secretsOf,
  theOnlySecret,
} from "../find.ts";
import { note, print, printRecords, printRestRecord, say, timeText } from "../output.ts";
import { openSession } from "../session.ts";
import { readValue, refuseValuesInArguments } from "../value.ts";

export interface SecretOptions extends PlaceOptions, Json {
  readonly yes?: boolean;
}
export interface GetOptions extends SecretOptions {
  readonly version?: number;
}
export interface SetOptions extends SecretOptions {
  readonly value?: unknown;
  readonly file?: string;
  readonly description?: string;
  readonly tag?: string[];
  readonly ttlHours?: number;
  readonly reason?: string;
}
export interface ListOptions extends SecretOptions {
  readonly search?: string;
}
export interface RollbackOptions extends SecretOptions {
  readonly to: number;
  readonly reason?: string;
}
export interface RotateOptions extends SecretOptions {
  readonly reason?: string;
  readonly valueStdin?: boolean;
  readonly expectVersion?: number;
}
export interface RestoreOptions extends SecretOptions {
  readonly ttlHours?: number;
}
export interface CopyOptions extends SecretOptions {
  readonly toProject?: string;
  readonly toEnv?: string;
  readonly newKey?: string;
  readonly reason?: string;
}

/** Prints the value exactly, so that it can be piped; a terminal gets its prompt on a line of its own. */
export async function get(key: string, options: GetOptions): Promise<void> {
  const api = openSession();
  const id = await findSecretId(api, key, options);
  const secret = await api(SecretService).getSecret({ id, version: options.version });
  if (options.json) printRestRecord(SecretSchema, secret);
  else print(`${secret.value ?? ""}${process.stdout.isTTY ? "\n" : ""}`);
}

/** Creates the secret, or adds a version to the one that is there. */
export async function set(key: string, values: readonly string[], options: SetOptions): Promise<void> {
  refuseValuesInArguments(key, values, options.value);
  const api = openSession();
  const target = await targetOf(api, key, options);
  const { description, tag: tags = [], ttlHours, reason: changeReason = "" } = options;
  if ("id" in target && ttlHours !== undefined) {
    throw usage("--ttl-hours is for a new secret: the life of one that is there does not change with its value");
  }
  const fields = { value: await readValue(options.file), tags, changeReason };
  if ("id" in target) {
    const secret = await api(SecretService).updateSecret({ ...target, ...fields, description });
    show(`updated ${secretName(secret)} to version ${secret.version}`, secret, options);
  } else {
    const request = { ...target, ...fields, description: description ?? "", ttlHours };
    const secret = await api(SecretService).createSecret(request);
    show(`created ${secretName(secret)}, version ${secret.version}`, secret, options);
  }
}

/** The secret that is there, or where a new one goes. */
async function targetOf(
  api: Api,
  key: string,
  options: PlaceOptions,
): Promise<{ id: string } | (Place & { key: string })> {
  if (isId(key)) return { id: key };
  const place = await findPlace(api, options);
  const found = await secretsOf(api, key, place);
  return found.length === 0 ? { key, ...place } : { id: theOnlySecret(key, found).id };
}

export async function list(options: ListOptions): Promise<void> {
  const api = openSession();
  const secrets = await listSecrets(api, await findPlace(api, options), options);
  printRecords(
    SecretListItemSchema,
    secrets,
    [
      ["KEY", ({ key }) => key],
      ["ENVIRONMENT", ({ environment }) => environment ?? "-"],
      ["VERSION", ({ version }) => String(version)],
      ["UPDATED", ({ updatedAt }) => timeText(updatedAt)],
      ["TAGS", ({ tags }) => tags.join(", ")],
      ["DESCRIPTION", ({ description }) => description],
    ],
    options,
  );
}

export async function history(key: string, options: SecretOptions): Promise<void> {
  const api = openSession();
  const { data } = await api(SecretService).listSecretVersions({ id: await findSecretId(api, key, options) });
  printRecords(
    SecretVersionSchema,
    data,
    [
      ["VERSION", ({ version }) => String(version)],
      ["CREATED", ({ createdAt }) => timeText(createdAt)],
      ["BY", ({ createdBy }) => createdBy],
      [
        "CHANGE",
        ({ changeType, sourceVersion }) => `${changeType}${sourceVersion === undefined ? "" : ` to ${sourceVersion}`}`,
      ],
      ["REASON", ({ changeReason }) => changeReason],
    ],
    options,
  );
}

export async function rollback(key: string, options: RollbackOptions): Promise<void> {
  const api = openSession();
  const id = await findSecretId(api, key, options);
  const { to: version, reason: changeReason = "" } = options;
  const secret = await api(SecretService).rollbackSecret({ id, version, changeReason });
  show(
    `rolled ${secretName(secret)} back to version ${version}, which makes version ${secret.version}`,
    secret,
    options,
  );
}

/** Waits for as long as the server does, and somewhat longer. */
const rotationTimeoutMs = 40_000;

export async function rotate(key: string, options: RotateOptions): Promise<void> {
  const { reason: changeReason = "", expectVersion: expectedVersion, valueStdin } = options;
  const api = openSession();
  const id = await findSecretId(api, key, options);
  const value = valueStdin ? await readValue(undefined) : undefined;
  const rotated = await orElseLook(
    api(RotationConfigService).rotateSecret(
      { id, changeReason, expectedVersion, value },
      { timeoutMs: rotationTimeoutMs },
    ),
    `what becomes of it, holdfast rotation status ${id} says`,
  );
  if (options.json) return printRestRecord(RotateSecretResponseSchema, rotated);
  const { version, nextRotation } = rotated;
  const next =
    nextRotation === undefined ? "no other one is scheduled" : `the next one is due ${timeText(nextRotation)}`;
  say(`rotated ${key} to version ${version}; ${next}`);
}

export async function remove(key: string, options: SecretOptions): Promise<void> {
  const api = openSession();
  const id = await findSecretId(api, key, options);
  if (!options.yes && !(await askConsent(`Delete ${key}?`, "agree with --yes"))) return note("nothing was deleted");
  await api(SecretService).deleteSecret({ id });
  note(`deleted ${key}; holdfast secret restore ${id} brings it back`);
}

export async function restore(reference: string, options: RestoreOptions): Promise<void> {
  const api = openSession();
  const id = isId(reference) ? reference : (await theOnlyAway(api, reference, options)).id;
  const secret = await api(SecretService).restoreSecret({ id, ttlHours: options.ttlHours });
  show(`restored ${secretName(secret)} at version ${secret.version}`, secret, options);
}

async function theOnlyAway(api: Api, key: string, options: PlaceOptions) {
  const place = await findPlace(api, options);
  const deleted = await secretsOf(api, key, place, "deleted");
  return theOnlySecret(key, [...deleted, ...(await secretsOf(api, key, place, "archived"))]);
}

export async function copy(key: string, options: CopyOptions): Promise<void> {
  const api = openSession();
  const id = await findSecretId(api, key, options);
  const { toProject, toEnv: targetEnvironment, newKey, reason: changeReason = "" } = options;
  const targetProjectId = toProject === undefined ? undefined : await findProjectId(api, toProject);
  const request = { id, targetProjectId, targetEnvironment, key: newKey, changeReason };
  const secret = await api(SecretService).copySecret(request);
  show(`copied ${key} to ${secretName(secret)}`, secret, options);
}

function show(sentence: string, secret: Secret, options: Json): void {
  if (options.json) printRestRecord(SecretSchema, secret);
  else say(sentence);
}
