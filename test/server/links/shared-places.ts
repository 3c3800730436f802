import type { JsonObject } from "@bufbuild/protobuf";
import { AwsServer } from "../../harness/aws-server.ts";
import { GitHubServer } from "../../harness/github-server.ts";
import { KubernetesServer } from "../../harness/kubernetes-server.ts";
import type { Trouble } from "../../harness/trouble.ts";
import { VaultServer } from "../../harness/vault-server.ts";

/** A destination that others use too: some of its entries were there before. */
export interface SharedPlace {
  readonly integration: string;
  readonly credentials: JsonObject;
  config(entry: string): JsonObject;
  /** What an entry holds; undefined when there is none. */
  read(entry: string): string | undefined;
  /** What happens to the next request. */
  trouble(next: Trouble): void;
  stop(): Promise<void>;
}

/** Entries that somebody else has made in each of them. */
export const theirs: Readonly<Record<string, string>> = { theirs_1: "of others", theirs_2: "\n", theirs_3: "v1" };

/** One of each kind, with the entries of others in it. */
export const sharedPlaces = (): Promise<SharedPlace[]> => Promise.all([vault(), kubernetes(), aws(), gitHub()]);

/** Entries are fields beside others. */
async function vault(): Promise<SharedPlace> {
  const server = await new VaultServer().start();
  server.ask("POST", "secret/data/app", { data: theirs });
  return {
    integration: "vault-kv",
    credentials: { token: server.rootToken },
    config: (field) => ({ address: server.url, path: "app", field }),
    read: (field) => server.fieldsAt("secret/data/app")?.[field] as string | undefined,
    trouble: (next) => {
      server.behave = () => {
        server.behave = () => undefined;
        return next;
      };
    },
    stop: async () => server.stop(),
  };
}

/** Entries are data keys beside others. */
async function kubernetes(): Promise<SharedPlace> {
  const server = new KubernetesServer();
  await server.start();
  server.prefill("app", theirs);
  return {
    integration: "kubernetes",
    credentials: { token: server.token },
    config: (data_key) => ({ api_server: server.url, namespace: "apps", secret_name: "app", data_key }),
    read: (dataKey) => server.valueAt("app", dataKey),
    trouble: (next) => server.troubles.push(next),
    stop: async () => server.stop(),
  };
}

/** Entries are secrets of their own. */
async function aws(): Promise<SharedPlace> {
  const server = new AwsServer();
  await server.start();
  for (const [name, value] of Object.entries(theirs)) server.prefill(name, value);
  return {
    integration: "aws-secrets-manager",
    credentials: server.identity,
    config: (secret_name) => ({ region: "eu-west-1", secret_name, endpoint_url: server.url }),
    read: (name) => (server.secret(name)?.DeletedDate === undefined ? server.valueAt(name) : undefined),
    trouble: (next) => server.troubles.push(next),
    stop: async () => server.stop(),
  };
}

/** Entries are secrets of their own, and hold no mark. */
async function gitHub(): Promise<SharedPlace> {
  const server = await new GitHubServer().start();
  server.add("octo/app");
  for (const [name, value] of Object.entries(theirs)) server.set("octo/app", name.toUpperCase(), value);
  return {
    integration: "github-actions",
    credentials: { token: server.token() },
    config: (secret_name) => ({ owner: "octo", repository: "app", secret_name, api_url: server.apiUrl }),
    read: (name) => server.secrets("octo/app")[name.toUpperCase()],
    trouble: (next) => {
      server.behave = () => {
        server.behave = () => undefined;
        return next;
      };
    },
    stop: async () => server.stop(),
  };
}
