import { TaskSchema } from "../../../gen/ts/holdfast/gateways/v1/gateway_service_pb.ts";
import {
  type RotationConfig,
  RotationConfigSchema,
  RotationConfigService,
} from "../../../gen/ts/holdfast/rotation/v1/rotation_config_service_pb.ts";
import type { Api } from "../../client/api.ts";
import type { Json } from "../commands/options.ts";
import { findPlace, findSecretId, listSecrets, type PlaceOptions, secretName } from "../find.ts";
import { print, printRecord, printRecords, printRestRecord } from "../output.ts";
import { configLines, rotationColumns, taskColumns } from "../rotation-status.ts";
import { openSession } from "../session.ts";

export interface RotationStatusOptions extends PlaceOptions, Json {}

const mostTasks = 10;

/** Shows one secret in full, and several as a table. */
export async function status(references: readonly string[], options: RotationStatusOptions): Promise<void> {
  const api = openSession();
  const [reference, ...others] = references;
  if (reference !== undefined && others.length === 0) {
    return showOne(api, await findSecretId(api, reference, options), options);
  }
  const names = reference === undefined ? await scheduled(api, options) : await named(api, references, options);
  const configs: RotationConfig[] = [];
  // One after the other: the limit of requests would not let many at a time be faster.
  for (const id of names.keys()) configs.push(await api(RotationConfigService).getRotationConfig({ id }));
  printRecords(RotationConfigSchema, configs, rotationColumns(names), options);
}

async function showOne(api: Api, id: string, options: Json): Promise<void> {
  const rotations = api(RotationConfigService);
  const config = await rotations.getRotationConfig({ id });
  if (options.json) return printRestRecord(RotationConfigSchema, config);
  printRecord(RotationConfigSchema, config, configLines, options);
  const { tasks } = await rotations.listRotationTasks({ id: config.id });
  if (tasks.length === 0) return;
  print("\n");
  printRecords(TaskSchema, tasks.slice(0, mostTasks), taskColumns, options);
}

/** What the secrets are called that have a schedule, by their ids. */
async function scheduled(api: Api, options: PlaceOptions): Promise<Map<string, string>> {
  const secrets = await listSecrets(api, await findPlace(api, options));
  const rotated = secrets.filter(({ rotation }) => rotation?.enabled);
  return new Map(rotated.map((secret) => [secret.id, secretName(secret)]));
}

/** The secrets as they were named, by their ids. */
async function named(api: Api, references: readonly string[], options: PlaceOptions): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  for (const reference of references) names.set(await findSecretId(api, reference, options), reference);
  return names;
}
