import { randomBytes } from "node:crypto";
import type { DescMethodUnary } from "@bufbuild/protobuf";
import type { TestServer } from "../harness/server.ts";

/** A request that succeeds for an administrator: path and query or body, by the proto's field names. */
export type Sample = Record<string, unknown>;

type Arrange = (server: TestServer) => Promise<Sample> | Sample;

const anything = (prefix: string) => `${prefix}-${randomBytes(6).toString("hex")}`;
const secretId = async (server: TestServer) => ({ id: (await server.secret()).id });
const newProject = async (server: TestServer) =>
  (await server.admin.rest("POST", "/api/v1/projects", { name: anything("project") })).body;
const newIdentity = async (server: TestServer) =>
  (await server.admin.rest("POST", "/api/v1/machine-identities", { name: anything("identity") })).body;
const organizationOf = async (server: TestServer) =>
  (await server.admin.rest("GET", "/api/v1/organizations")).body.data[0];

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
  "holdfast.audit.v1.AuditService.ListAuditEvents": () => ({ action: "organization.create", per_page: 1 }),
  "holdfast.health.v1.HealthService.GetHealth": () => ({}),
  "holdfast.health.v1.HealthService.GetDatabaseHealth": () => ({}),
  "holdfast.health.v1.HealthService.GetSystemHealth": () => ({}),
};

/** The name of a method in `samples`. */
export const nameOf = (method: DescMethodUnary) => `${method.parent.typeName}.${method.name}`;
