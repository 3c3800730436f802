import { type SecretListItem, SecretService } from "../../../gen/ts/holdfast/secrets/v1/secret_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { childEnvironment, runChild } from "../child.ts";
import { notFound, usage } from "../failure.ts";
import { findPlace, listSecrets, type PlaceOptions } from "../find.ts";
import { openSession } from "../session.ts";

export interface RunOptions extends PlaceOptions {
  readonly only?: string[];
  readonly prefix?: string;
}

/** Values come one per request, and whoever else uses the identity shares its limit. */
const readers = 4;

const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Runs a command with the secrets in its environment; the exit status is the command's. */
export async function run(command: readonly string[], options: RunOptions): Promise<void> {
  const api = openSession();
  const secrets = chosen(await listSecrets(api, await findPlace(api, options)), options);
  const variables = named(secrets, options.prefix ?? "");
  const values = await readValues(api, variables);
  process.exitCode = await runChild(command, { ...childEnvironment(), ...values });
}

/** Those that are asked for. Throws a Failure when there are none: the environment may have been mistyped. */
function chosen(secrets: readonly SecretListItem[], { only, env }: RunOptions): readonly SecretListItem[] {
  if (secrets.length === 0)
    throw notFound(`there is no secret in the ${env === undefined ? "project" : `environment ${env}`}`);
  if (only === undefined) return secrets;
  const missing = only.filter((key) => !secrets.some((secret) => secret.key === key));
  if (missing.length > 0) throw notFound(`there is no secret ${missing.join(", ")}`);
  return secrets.filter(({ key }) => only.includes(key));
}

/** The secrets by the names of their variables. Throws a Failure that lists those that cannot be, or are not one. */
function named(secrets: readonly SecretListItem[], prefix: string): Map<string, SecretListItem> {
  const unusable = secrets.filter(({ key }) => !variableName.test(prefix + key)).map(({ key }) => key);
  if (unusable.length > 0) {
    throw usage(`no names of variables: ${unusable.join(", ")}`, [
      "choose secrets with --only, or make names of the keys with --prefix",
    ]);
  }
  const variables = new Map(secrets.map((secret) => [prefix + secret.key, secret]));
  const repeated = secrets.filter((secret) => variables.get(prefix + secret.key) !== secret).map(({ key }) => key);
  if (repeated.length > 0) throw usage(`in several environments: ${repeated.join(", ")}; choose one with --env`);
  return variables;
}

async function readValues(api: Api, variables: ReadonlyMap<string, SecretListItem>): Promise<Record<string, string>> {
  const values: Record<string, string> = {};
  const waiting = variables.entries();
  const read = async () => {
    // All readers draw from the one iterator.
    for (const [name, { id }] of waiting) values[name] = (await api(SecretService).getSecret({ id })).value ?? "";
  };
  await Promise.all(Array.from({ length: readers }, read));
  const unusable = Object.keys(values).filter((name) => values[name]?.includes("\0"));
  if (unusable.length > 0) throw usage(`a variable cannot hold the character NUL, as do: ${unusable.join(", ")}`);
  return values;
}
