import { awsSecretsManager } from "./aws-secrets-manager.ts";
import type { Destination } from "./destination.ts";
import type { destinationNames } from "./destination-names.ts";
import { githubActions } from "./github-actions.ts";
import { kubernetes } from "./kubernetes.ts";
import { vaultKv } from "./vault-kv.ts";
import { webhook } from "./webhook.ts";

const destinations: Readonly<Record<(typeof destinationNames)[number], Destination>> = {
  "aws-secrets-manager": awsSecretsManager,
  "github-actions": githubActions,
  kubernetes,
  "vault-kv": vaultKv,
  webhook,
};

const byName: ReadonlyMap<string, Destination> = new Map(Object.entries(destinations));

/** Undefined for a name that no destination has. */
export const destinationNamed = (integration: string): Destination | undefined => byName.get(integration);
