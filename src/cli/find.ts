import { ProjectService } from "../../gen/ts/holdfast/auth/v1/project_service_pb.ts";
import { type SecretListItem, SecretService } from "../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import type { Api } from "../client/api.ts";
import { allPages } from "../client/pages.ts";
import { notFound, usage } from "./failure.ts";
import { setting } from "./settings.ts";

/** Where a command looks for secrets, as it was typed. */
export interface PlaceOptions {
  /** Name or id; HOLDFAST_PROJECT_ID unless given. */
  readonly project?: string;
  readonly env?: string;
}

/** A project, and one of its environments or all of them. */
export interface Place {
  readonly projectId: string;
  readonly environment: string | undefined;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isId = (reference: string): boolean => uuid.test(reference);

/** The only one that is meant. Throws a Failure when there is none, and one that lists them when there are several. */
export function theOnly<Row>(what: string, found: readonly Row[], describe: (row: Row) => string, remedy: string): Row {
  const [one, ...others] = found;
  if (one === undefined) throw notFound(`there is no ${what}`);
  if (others.length > 0) throw usage(`there are several: ${what}; ${remedy}`, found.map(describe));
  return one;
}

/** The id of the project that is named, or that the environment names. */
export async function findProjectId(api: Api, given = setting("PROJECT_ID")): Promise<string> {
  if (given === undefined) throw usage("which project? name it with --project or HOLDFAST_PROJECT_ID");
  if (isId(given)) return given;
  const projects = await allPages((page) => api(ProjectService).listProjects({ search: given, ...page }));
  const named = projects.filter(({ name }) => name === given);
  return theOnly(`project ${given}`, named, ({ id }) => id, "say which by its id").id;
}

export async function findPlace(api: Api, { project, env }: PlaceOptions): Promise<Place> {
  return { projectId: await findProjectId(api, project), environment: env };
}

/** The secrets of a place; active ones unless another status is asked for. */
export function listSecrets(
  api: Api,
  place: Place,
  { search, status }: { readonly search?: string | undefined; readonly status?: string } = {},
): Promise<SecretListItem[]> {
  return allPages((page) => api(SecretService).listSecrets({ ...place, search, status, ...page }));
}

/** The secrets of exactly this key: more than one when environments have their own. */
export async function secretsOf(api: Api, key: string, place: Place, status = "active"): Promise<SecretListItem[]> {
  const found = await listSecrets(api, place, { search: key, status });
  return found.filter((secret) => secret.key === key);
}

/** The id of the secret that a key means, or the id itself. */
export async function findSecretId(api: Api, reference: string, options: PlaceOptions): Promise<string> {
  if (isId(reference)) return reference;
  return theOnlySecret(reference, await secretsOf(api, reference, await findPlace(api, options))).id;
}

/** What people call a secret, as in "DB_PASSWORD (production)". */
export const secretName = ({ key, environment }: Pick<SecretListItem, "key" | "environment">): string =>
  environment === undefined ? key : `${key} (${environment})`;

/** The only secret of a key. */
export function theOnlySecret(key: string, found: readonly SecretListItem[]): SecretListItem {
  const describe = ({ id, environment, status }: SecretListItem) =>
    `${id}  ${environment ?? "(no environment)"}${status === "active" ? "" : `  ${status}`}`;
  return theOnly(`secret ${key}`, found, describe, "say which with --env or by its id");
}
