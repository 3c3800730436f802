import { randomBytes } from "node:crypto";
import type { RestMethod } from "../../src/server/wire/http-rule.ts";
import { Client } from "../harness/client.ts";
import { beginLogin, passwordFields } from "../harness/person.ts";
import { type TestServer, usualPassword } from "../harness/server.ts";

/** A request that succeeds for an administrator: path and query or body, by the proto's field names. */
export type Sample = Record<string, unknown>;

type Arrange = (server: TestServer) => Promise<Sample> | Sample;

const anything = (prefix: string) => `${prefix}-${randomBytes(6).toString("hex")}`;
const secretId = async (server: TestServer) => ({ id: (await server.secret()).id });
const newProject = async (server: TestServer) =>
  (await server.admin.rest("POST", "/api/v1/projects", { name: anything("project") })).body;
const newIdentity = async (server: TestServer) =>
  (await server.admin.rest("POST", "/api/v1/machine-identities", { name: anything("identity") })).body;
const newUser = async (server: TestServer) =>
  (await server.admin.rest("POST", "/api/v1/users", { username: anything("user") })).body;
const userId = async (server: TestServer) => ({ id: (await newUser(server)).id });
const newRole = async (server: TestServer) =>
  (await server.admin.rest("POST", "/api/v1/roles", { name: anything("role"), permissions: ["secret:read"] })).body;
const organizationOf = async (server: TestServer) =>
  (await server.admin.rest("GET", "/api/v1/organizations")).body.data[0];

const newApiToken = async (server: TestServer) =>
  (await server.admin.rest("POST", "/api/v1/api-tokens", { name: anything("token") })).body;

/** One request for every method of the contract, made anew for each call. A method without one fails the contract tests. */
export const samples: Readonly<Record<string, Arrange>> = {
  "holdfast.secrets.v1.SecretService.CreateSecret": ({ projectId }) => ({
    key: anything("key"),
    value: "v",
    project_id: projectId,
    environment: "production",
    ttl_hours: 24,
    metadata: { owner: "payments", nested: { list: [1, null, "x"] } },
    tags: ["a", "b"],
    rotation: { enabled: true, interval_days: 7 },
  }),
  "holdfast.secrets.v1.SecretService.ListSecrets": async (server) => {
    const project = await newProject(server);
    await server.secret({ project_id: project.id, key: "only", tags: ["t"] });
    return { project_id: project.id, tag: "t", per_page: 10 };
  },
  "holdfast.secrets.v1.SecretService.GetSecret": secretId,
  "holdfast.secrets.v1.SecretService.UpdateSecret": async (server) => ({
    ...(await secretId(server)),
    value: "v2",
    description: "d",
    tags: ["x"],
    change_reason: "because",
    expected_version: 1,
  }),
  "holdfast.secrets.v1.SecretService.DeleteSecret": secretId,
  "holdfast.secrets.v1.SecretService.ListSecretVersions": secretId,
  "holdfast.secrets.v1.SecretService.RollbackSecret": async (server) => ({ ...(await secretId(server)), version: 1 }),
  "holdfast.secrets.v1.SecretService.CopySecret": async (server) => ({
    ...(await secretId(server)),
    key: anything("copy"),
  }),
  "holdfast.secrets.v1.SecretService.ArchiveSecret": secretId,
  "holdfast.secrets.v1.SecretService.RestoreSecret": async (server) => {
    const { id } = await server.secret();
    await server.admin.rest("DELETE", `/api/v1/secrets/${id}`);
    return { id, ttl_hours: 2 };
  },
  "holdfast.secrets.v1.SecretService.DeleteSecretPermanently": secretId,
  "holdfast.auth.v1.TokenService.CreateToken": ({ clientId, clientSecret }) => ({
    grant_type: "client_credentials",
    client_id: clientId,
    client_secret: clientSecret,
  }),
  "holdfast.auth.v1.TokenService.LoginUniversal": ({ clientId, clientSecret }) => ({
    client_id: clientId,
    client_secret: clientSecret,
  }),
  "holdfast.auth.v1.OrganizationService.CreateOrganization": () => ({ name: anything("organization") }),
  "holdfast.auth.v1.OrganizationService.ListOrganizations": () => ({ page: 1 }),
  "holdfast.auth.v1.OrganizationService.GetOrganization": async (server) => ({ id: (await organizationOf(server)).id }),
  "holdfast.auth.v1.OrganizationService.UpdateOrganization": async (server) => {
    const { id, name } = await organizationOf(server);
    return { id, name };
  },
  "holdfast.auth.v1.ProjectService.CreateProject": () => ({ name: anything("project"), key_scope: "environment" }),
  "holdfast.auth.v1.ProjectService.ListProjects": () => ({ search: "default" }),
  "holdfast.auth.v1.ProjectService.GetProject": async (server) => ({ id: (await newProject(server)).id }),
  "holdfast.auth.v1.ProjectService.UpdateProject": async (server) => ({
    id: (await newProject(server)).id,
    description: "d",
    key_scope: "environment",
  }),
  "holdfast.auth.v1.ProjectService.DeleteProject": async (server) => ({ id: (await newProject(server)).id }),
  "holdfast.auth.v1.MachineIdentityService.CreateMachineIdentity": ({ projectId }) => ({
    name: anything("identity"),
    roles: ["viewer"],
    project_roles: [{ project_id: projectId, role: "editor" }],
    allowed_ips: ["127.0.0.0/8"],
  }),
  "holdfast.auth.v1.MachineIdentityService.ListMachineIdentities": () => ({ search: "administrator" }),
  "holdfast.auth.v1.MachineIdentityService.GetMachineIdentity": async (server) => ({
    id: (await newIdentity(server)).id,
  }),
  "holdfast.auth.v1.MachineIdentityService.UpdateMachineIdentity": async (server) => ({
    id: (await newIdentity(server)).id,
    roles: ["viewer"],
  }),
  "holdfast.auth.v1.MachineIdentityService.DisableMachineIdentity": async (server) => ({
    id: (await newIdentity(server)).id,
  }),
  "holdfast.auth.v1.MachineIdentityService.EnableMachineIdentity": async (server) => ({
    id: (await newIdentity(server)).id,
  }),
  "holdfast.auth.v1.MachineIdentityService.DeleteMachineIdentity": async (server) => ({
    id: (await newIdentity(server)).id,
  }),
  "holdfast.auth.v1.MachineIdentityService.CreateClientSecret": async (server) => ({
    machine_identity_id: (await newIdentity(server)).id,
    description: "d",
    max_uses: 3,
  }),
  "holdfast.auth.v1.MachineIdentityService.ListClientSecrets": async (server) => ({
    machine_identity_id: (await newIdentity(server)).id,
  }),
  "holdfast.auth.v1.MachineIdentityService.RevokeClientSecret": async (server) => {
    const { id } = await newIdentity(server);
    const { body } = await server.admin.rest("POST", `/api/v1/machine-identities/${id}/client-secrets`, {});
    return { machine_identity_id: id, id: body.id };
  },
  "holdfast.auth.v1.UserService.CreateUser": ({ projectId }) => ({
    username: anything("user"),
    email: "somebody@example.com",
    display_name: "Somebody",
    roles: ["viewer"],
    project_roles: [{ project_id: projectId, role: "editor" }],
    rate_limit_per_minute: 100,
  }),
  "holdfast.auth.v1.UserService.ListUsers": async (server) => ({
    search: (await newUser(server)).username,
    status: "pending",
  }),
  "holdfast.auth.v1.UserService.GetCurrentUser": () => ({}),
  "holdfast.auth.v1.UserService.GetUser": userId,
  "holdfast.auth.v1.UserService.UpdateUser": async (server) => ({
    ...(await userId(server)),
    display_name: "d",
    roles: ["viewer"],
  }),
  "holdfast.auth.v1.UserService.DisableUser": userId,
  "holdfast.auth.v1.UserService.EnableUser": userId,
  "holdfast.auth.v1.UserService.ResetUserEnrollment": userId,
  "holdfast.auth.v1.UserService.DeleteUser": userId,
  "holdfast.auth.v1.RoleService.CreateRole": () => ({
    name: anything("role"),
    description: "d",
    permissions: ["secret:read", "keytab:read"],
  }),
  "holdfast.auth.v1.RoleService.ListRoles": () => ({}),
  "holdfast.auth.v1.RoleService.GetRole": async (server) => ({ id: (await newRole(server)).id }),
  "holdfast.auth.v1.RoleService.UpdateRole": async (server) => ({
    id: (await newRole(server)).id,
    description: "d",
    permissions: ["keytab:read"],
  }),
  "holdfast.auth.v1.RoleService.DeleteRole": async (server) => ({ id: (await newRole(server)).id }),
  "holdfast.auth.v1.RoleService.ListPermissions": () => ({}),
  "holdfast.auth.v1.ApiTokenService.CreateApiToken": ({ projectId }) => ({
    name: anything("token"),
    expires_in_days: 7,
    permissions: ["secret:read"],
    project_ids: [projectId],
    allowed_ips: ["10.0.0.0/8"],
  }),
  "holdfast.auth.v1.ApiTokenService.ListApiTokens": async (server) => ({
    owner_id: (await server.as(anything("owner"), [])).id,
  }),
  "holdfast.auth.v1.ApiTokenService.GetApiToken": async (server) => ({ id: (await newApiToken(server)).id }),
  "holdfast.auth.v1.ApiTokenService.RevokeApiToken": async (server) => ({ id: (await newApiToken(server)).id }),
  "holdfast.auth.v1.SrpService.GetSrpParameters": () => ({}),
  "holdfast.auth.v1.SrpService.InitSrp": () => ({ username: "admin" }),
  "holdfast.auth.v1.SrpService.VerifySrp": async (server) =>
    (await beginLogin(server.anonymous, "admin", usualPassword)).request,
  "holdfast.auth.v1.SrpService.EnrollSrp": async (server) => {
    const { username, enrollment_token } = await newUser(server);
    return { username, enrollment_token, ...(await passwordFields(username, "new")) };
  },
  "holdfast.auth.v1.SrpService.ChangePassword": () => passwordFields("whoever", "new"),
  "holdfast.auth.v1.SessionService.WhoAmI": ({ projectId }) => ({ can: ["secret:read"], project_id: projectId }),
  "holdfast.auth.v1.SessionService.CreateSession": () => ({}),
  "holdfast.auth.v1.SessionService.DeleteSession": () => ({}),
  "holdfast.auth.v1.SessionService.GetCsrfToken": () => ({}),
  "holdfast.auth.v1.SessionService.Logout": () => ({}),
  "holdfast.audit.v1.AuditService.ListAuditEvents": () => ({ action: "organization.create", per_page: 1 }),
  "holdfast.audit.v1.AuditService.GetAuditEvent": async ({ admin }) => ({
    id: (await admin.rest("GET", "/api/v1/audit-logs?action=organization.create")).body.data[0].id,
  }),
  "holdfast.audit.v1.AuditService.ExportAuditEvents": () => ({}),
  "holdfast.audit.v1.AuditService.VerifyAuditLog": () => ({}),
  "holdfast.health.v1.HealthService.GetHealth": () => ({}),
  "holdfast.health.v1.HealthService.GetDatabaseHealth": () => ({}),
  "holdfast.health.v1.HealthService.GetSystemHealth": () => ({}),
};

const newLogin = (server: TestServer) => server.login(server.clientId, server.clientSecret);

async function newSession(server: TestServer): Promise<Client> {
  const { headers, body } = await server.admin.rest("POST", "/api/v1/auth/session");
  const [cookie = ""] = headers.getSetCookie()[0]?.split(";") ?? [];
  return new Client(server.url, undefined, server.admin.id, { cookie, "x-csrf-token": body.csrf_token });
}

/** Who calls where the administrator's own token will not do: for each call, somebody new. */
const callers: Readonly<Record<string, (server: TestServer) => Promise<Client>>> = {
  "holdfast.auth.v1.SrpService.ChangePassword": (server) => server.user(anything("user")),
  "holdfast.auth.v1.SessionService.DeleteSession": newSession,
  "holdfast.auth.v1.SessionService.Logout": newLogin,
  "holdfast.auth.v1.UserService.GetCurrentUser": (server) => server.user(anything("user")),
};

/** Who may call a method, and for whom its sample succeeds. */
export const callerOf = async (server: TestServer, method: RestMethod): Promise<Client> =>
  (await callers[nameOf(method)]?.(server)) ?? server.admin;

/** The name of a method in `samples`. */
export const nameOf = (method: RestMethod) => `${method.parent.typeName}.${method.name}`;
