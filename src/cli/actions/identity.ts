import type { Client } from "@connectrpc/connect";
import {
  type ClientSecret,
  ClientSecretSchema,
  type MachineIdentity,
  MachineIdentitySchema,
  MachineIdentityService,
} from "../../../gen/ts/holdfast/auth/v1/machine_identity_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { allPages } from "../../client/pages.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { isId, theOnly } from "../find.ts";
import { note, printOnce, printRecord, printRecords, printRestRecord, timeText } from "../output.ts";
import { findProjectRoles, projectRolesText } from "../project-roles.ts";
import { openSession } from "../session.ts";

export interface IdentityListOptions extends Json {
  readonly search?: string;
}
export interface IdentityOptions extends Json {
  readonly role?: string[];
  readonly projectRole?: string[];
  readonly allowedIp?: string[];
  readonly tokenTtlSeconds?: number;
  readonly rateLimit?: number;
  readonly yes?: boolean;
}
export interface ClientSecretOptions extends Json {
  readonly description?: string;
  readonly ttlHours?: number;
  readonly maxUses?: number;
}

export async function list({ search, ...options }: IdentityListOptions): Promise<void> {
  const api = openSession();
  const identities = await allPages((page) => api(MachineIdentityService).listMachineIdentities({ search, ...page }));
  printRecords(
    MachineIdentitySchema,
    identities,
    [
      ["NAME", ({ name }) => name],
      ["CLIENT ID", ({ clientId }) => clientId],
      ["STATUS", ({ status }) => status],
      ["ROLES", ({ roles }) => roles.join(", ")],
      ["LAST LOGIN", ({ lastAuthenticatedAt }) => timeText(lastAuthenticatedAt)],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function create(name: string, options: IdentityOptions): Promise<void> {
  const api = openSession();
  const projectRoles = await findProjectRoles(api, options.projectRole);
  const { role: roles = [], allowedIp: allowedIps = [], tokenTtlSeconds, rateLimit } = options;
  const identity = await api(MachineIdentityService).createMachineIdentity({
    name,
    roles,
    projectRoles,
    allowedIps,
    accessTokenTtlSeconds: tokenTtlSeconds,
    rateLimitPerMinute: rateLimit,
  });
  show(identity, options);
}

/** A command that does one thing to a machine identity and shows the record. */
const onIdentity =
  (act: (identities: Client<typeof MachineIdentityService>, id: string) => Promise<MachineIdentity>) =>
  async (name: string, options: Json): Promise<void> => {
    const api = openSession();
    show(await act(api(MachineIdentityService), await findIdentityId(api, name)), options);
  };

export const get = onIdentity((identities, id) => identities.getMachineIdentity({ id }));
export const disable = onIdentity((identities, id) => identities.disableMachineIdentity({ id }));
export const enable = onIdentity((identities, id) => identities.enableMachineIdentity({ id }));

export async function remove(name: string, { yes }: IdentityOptions): Promise<void> {
  const api = openSession();
  const id = await findIdentityId(api, name);
  if (!yes && !(await askConsent(`Remove the machine identity ${name}?`, "agree with --yes"))) {
    return note("nothing was removed");
  }
  await api(MachineIdentityService).deleteMachineIdentity({ id });
  note(`removed ${name}`);
}

export async function createSecret(name: string, options: ClientSecretOptions): Promise<void> {
  const api = openSession();
  const machineIdentityId = await findIdentityId(api, name);
  const { description = "", ttlHours, maxUses } = options;
  const request = { machineIdentityId, description, ttlHours, maxUses };
  const secret = await api(MachineIdentityService).createClientSecret(request);
  if (options.json) return printRestRecord(ClientSecretSchema, secret);
  const end = secret.expiresAt === undefined ? "does not end by itself" : `ends ${timeText(secret.expiresAt)}`;
  printOnce(secret.clientSecret, `the client secret of ${name} is shown this once; it ${end}`);
}

const secretsOf = (api: Api, machineIdentityId: string): Promise<ClientSecret[]> =>
  allPages((page) => api(MachineIdentityService).listClientSecrets({ machineIdentityId, ...page }));

export async function listSecrets(name: string, options: Json): Promise<void> {
  const api = openSession();
  printRecords(
    ClientSecretSchema,
    await secretsOf(api, await findIdentityId(api, name)),
    [
      ["PREFIX", ({ prefix }) => prefix],
      ["STATUS", ({ status }) => status],
      ["USES", ({ useCount, maxUses }) => (maxUses === undefined ? String(useCount) : `${useCount} of ${maxUses}`)],
      ["EXPIRES", ({ expiresAt }) => (expiresAt === undefined ? "never" : timeText(expiresAt))],
      ["DESCRIPTION", ({ description }) => description],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function revokeSecret(name: string, reference: string): Promise<void> {
  const api = openSession();
  const machineIdentityId = await findIdentityId(api, name);
  const id = isId(reference) ? reference : await findSecretByPrefix(api, machineIdentityId, reference);
  await api(MachineIdentityService).revokeClientSecret({ machineIdentityId, id });
  note(`revoked ${reference}`);
}

async function findSecretByPrefix(api: Api, machineIdentityId: string, prefix: string): Promise<string> {
  const all = await secretsOf(api, machineIdentityId);
  const active = all.filter((secret) => secret.status === "active" && secret.prefix === prefix);
  const describe = ({ id, description }: ClientSecret) => `${id}  ${description}`;
  return theOnly(`active client secret ${prefix}`, active, describe, "say which by its id").id;
}

async function findIdentityId(api: Api, name: string): Promise<string> {
  if (isId(name)) return name;
  const found = await allPages((page) => api(MachineIdentityService).listMachineIdentities({ search: name, ...page }));
  const named = found.filter((identity) => identity.name === name);
  return theOnly(`machine identity ${name}`, named, ({ id }) => id, "say which by its id").id;
}

function show(identity: MachineIdentity, options: Json): void {
  printRecord(
    MachineIdentitySchema,
    identity,
    [
      ["name", ({ name }) => name],
      ["id", ({ id }) => id],
      ["client id", ({ clientId }) => clientId],
      ["status", ({ status }) => status],
      ["roles", ({ roles }) => roles.join(", ")],
      ["project roles", ({ projectRoles }) => projectRolesText(projectRoles)],
      ["allowed addresses", ({ allowedIps }) => (allowedIps.length === 0 ? "all" : allowedIps.join(", "))],
      ["token life", ({ accessTokenTtlSeconds }) => `${accessTokenTtlSeconds} s`],
      ["rate limit", ({ rateLimitPerMinute: limit }) => (limit === undefined ? "-" : `${limit} a minute`)],
      ["last login", ({ lastAuthenticatedAt }) => timeText(lastAuthenticatedAt)],
      ["created", ({ createdAt }) => timeText(createdAt)],
    ],
    options,
  );
}
