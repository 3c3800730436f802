import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { RestMethod } from "../../src/server/wire/http-rule.ts";
import { Client } from "../harness/client.ts";
import { TestGateway } from "../harness/gateway.ts";
import { foundKeytab, Host } from "../harness/host.ts";
import { importKeytab, newKeytab } from "../harness/keytabs.ts";
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

const keytabId = async ({ admin, projectId }: TestServer) => ({
  id: (await importKeytab(admin, newKeytab(), { project_id: projectId })).id,
});
const policy = {
  allowed_ciphers: ["aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96"],
  deprecated_ciphers: ["aes128-cts-hmac-sha1-96"],
  enforcement_mode: "warn",
};

const newAuthority = async (server: TestServer) =>
  (
    await server.admin.rest("POST", "/api/v1/certificate-authorities", {
      name: anything("authority"),
      type: "root",
      subject: { common_name: "Example Root", organization: "Example", country: "DE" },
    })
  ).body;
const authorityId = async (server: TestServer) => ({ id: (await newAuthority(server)).id });

/** An authority with a revocation list: no builder runs beside the tests of the contract. */
async function listedAuthorityId(server: TestServer): Promise<{ id: string }> {
  const { id } = await newAuthority(server);
  await server.sql(
    `update crl set number = 1, this_update = now(), next_update = now() + interval '7 days', size = 4, entries = 0
     where ca_id = $1`,
    [id],
  );
  await server.sql("insert into crl_part (ca_id, number, position, bytes) values ($1, 1, 0, '\\x30020500')", [id]);
  return { id };
}

/** A certificate for a host of its own. */
async function newCertificate(server: TestServer) {
  const { id: ca_id } = await newAuthority(server);
  const subject = { common_name: `${anything("host")}.example.com` };
  const { admin, projectId: project_id } = server;
  return (await admin.rest("POST", "/api/v1/certificates", { ca_id, project_id, subject })).body;
}
const certificateId = async (server: TestServer) => ({ id: (await newCertificate(server)).id });

const governanceReport = { password_policy: { min_length: 12 }, mfa_policy: { min_enforcement_level: "required" } };
const reportId = async ({ admin }: TestServer) => ({
  id: (await admin.rest("POST", "/api/v1/governance/reports", governanceReport)).body.id,
});

/** What all samples of a server share, made when the first of them needs it. */
const oneFor = <Thing>(make: (server: TestServer) => Promise<Thing>) => {
  const made = new WeakMap<TestServer, Promise<Thing>>();
  return (server: TestServer): Promise<Thing> => {
    const thing = made.get(server) ?? make(server);
    made.set(server, thing);
    return thing;
  };
};

async function newHost(server: TestServer): Promise<Host> {
  const host = await Host.enroll(server, { hostname: anything("host") });
  // Two minutes after the last heartbeat it would be offline.
  const heart = setInterval(() => void host.heartbeat().catch(() => {}), 30_000);
  server.beforeStop(() => {
    clearInterval(heart);
    host.close();
  });
  return host;
}

/** What the files on answering hosts hold. */
const files = new Map<string, Buffer>();

/** Whose agent calls the methods of agents. */
const callingHost = oneFor(newHost);

/** Whose agent answers requests for files. */
const answeringHost = oneFor(async (server) => {
  const host = await newHost(server);
  host.answerUploads(files);
  return host;
});

const anyCertificate = oneFor(newCertificate);

const anyKeytab = oneFor(({ admin }) => importKeytab(admin));

const agentId = async (server: TestServer) => {
  const host = await Host.enroll(server, { hostname: anything("host") });
  host.close();
  return { id: host.id };
};
const newEnrollmentToken = async ({ admin }: TestServer) =>
  (await admin.rest("POST", "/api/v1/agents/enrollment-tokens", {})).body;

/** A file on the answering host: its agent has reported each of these contents, and the last one is there. */
async function discoveredId(server: TestServer, ...contents: readonly Buffer[]): Promise<{ id: string }> {
  const host = await answeringHost(server);
  const path = `/etc/${anything("file")}`;
  for (const bytes of contents.length === 0 ? [newKeytab()] : contents) {
    files.set(path, bytes);
    await host.report([foundKeytab(path, bytes)], { complete: false });
  }
  const { body } = await server.admin.rest("GET", `/api/v1/keytabs/discovered?agent_id=${host.id}&limit=100`);
  const found = body.data.find(({ file_path }: { file_path: string }) => file_path === path);
  return { id: found.id };
}

/** A request for a file that waits for the calling agent; whoever asked is left out. */
async function awaitedUpload(server: TestServer): Promise<Sample> {
  const { id } = await callingHost(server);
  const bytes = newKeytab();
  const [request] = await server.sql(
    `insert into agent_command (organization_id, agent_id, file_path, expected_hash, expires_at)
     select organization_id, id, '/etc/krb5.keytab', $2, now() + interval '1 minute' from agent where id = $1
     returning id`,
    [id, createHash("sha256").update(bytes).digest("hex")],
  );
  return { request_id: request.id, keytab_data: bytes.toString("base64") };
}

type GatewayFields = Pick<Parameters<typeof TestGateway.register>[1] & object, "environment" | "role">;

const newGateway = (server: TestServer, fields: GatewayFields = {}) =>
  TestGateway.register(server, { name: anything("gateway"), environment: anything("environment"), ...fields });

/** A gateway that is there to be administered. */
async function quietGateway(server: TestServer, fields: GatewayFields = {}): Promise<TestGateway> {
  const gateway = await newGateway(server, fields);
  gateway.close();
  return gateway;
}

const oneGateway = oneFor((server) => quietGateway(server));

/** The active gateway that calls the methods of gateways; it keeps its environment for as long as tests run. */
const callingGateway = oneFor(async (server) => {
  const gateway = await newGateway(server);
  const heart = setInterval(() => void gateway.heartbeat().catch(() => {}), 30_000);
  server.beforeStop(() => clearInterval(heart));
  return gateway;
});

/** Which process of which gateway calls. */
const callingProcess = async (server: TestServer) => {
  const { id, instanceId } = await callingGateway(server);
  return { gateway_id: id, instance_id: instanceId };
};
const callingHolder = async (server: TestServer) => ({
  ...(await callingProcess(server)),
  fencing_token: (await callingGateway(server)).token,
});

async function deactivated(server: TestServer, markFailed: boolean): Promise<TestGateway> {
  const primary = await quietGateway(server);
  await server.admin.rest("POST", `/api/v1/admin/gateways/${primary.id}/deactivate`, { mark_failed: markFailed });
  return primary;
}

async function configId(server: TestServer): Promise<{ id: string }> {
  const { id } = await server.secret();
  const { body } = await server.admin.rest("GET", `/api/v1/secrets/${id}/rotation-config`);
  return { id: body.id };
}

const rotationTask = async ({ admin }: TestServer, config: string) =>
  (await admin.rest("POST", `/api/v1/rotation/configs/${config}/execute`, {})).body;

/** A template for the server's first project. */
async function newTemplate({ admin, projectId }: TestServer) {
  const fields = { name: anything("template"), project_id: projectId, rotation_interval_days: 30 };
  return (await admin.rest("POST", "/api/v1/rotation/templates", fields)).body;
}
const templateId = async (server: TestServer) => ({ id: (await newTemplate(server)).id });

const webhookLink = {
  integration: "webhook",
  config: { url: "https://sync.example.com/hook" },
  credentials: { signing_secret: "s" },
  name: "n",
  environment: "production",
};

/** A link of a new secret, which is not written anywhere: no jobs run beside the tests of the contract. */
async function linkIds(server: TestServer): Promise<{ id: string; link_id: string }> {
  const { id } = await server.secret();
  const { body } = await server.admin.rest("POST", `/api/v1/secrets/${id}/links`, webhookLink);
  return { id, link_id: body.id };
}
const linkedSecretId = async (server: TestServer) => ({ id: (await linkIds(server)).id });

/** A rotation that waits for the calling gateway. */
async function queueTask(server: TestServer): Promise<void> {
  const { environment } = await callingGateway(server);
  const { id } = await server.secret({ environment });
  const { body: config } = await server.admin.rest("PUT", `/api/v1/secrets/${id}/rotation-config`, {
    provider: "gateway",
    provider_settings: { driver: "generated_value" },
  });
  await rotationTask(server, config.id);
}

/** The report of a task that the calling gateway has claimed: whichever was the first to wait. */
async function finishedTask(server: TestServer): Promise<Sample> {
  await queueTask(server);
  const { taskId, claimId } = (await (await callingGateway(server)).claim()) ?? {};
  return { ...(await callingHolder(server)), task_id: taskId, claim_id: claimId, succeeded: {} };
}

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
  "holdfast.secrets.v1.SecretService.ListSecretConsumers": async (server) => {
    const { id } = await server.secret();
    await server.admin.rest("GET", `/api/v1/secrets/${id}`);
    return { id, version: 1, per_page: 10 };
  },
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
  "holdfast.auth.v1.SrpService.GetEnrollment": async (server) => {
    const { username, enrollment_token } = await newUser(server);
    return { username, enrollment_token };
  },
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
  "holdfast.keytabs.v1.KeytabService.ImportKeytab": ({ projectId }) => ({
    name: "web server",
    keytab_data: newKeytab().toString("base64"),
    expires_at: "2099-12-31T23:59:59Z",
    project_id: projectId,
    notes: "n",
  }),
  "holdfast.keytabs.v1.KeytabService.ListKeytabs": async (server) => {
    const { id } = await newProject(server);
    await importKeytab(server.admin, newKeytab(), { project_id: id });
    return { project_id: id, status: "active", realm: "example.com", principal: "WEB", limit: 10 };
  },
  "holdfast.keytabs.v1.KeytabService.GetKeytab": keytabId,
  "holdfast.keytabs.v1.KeytabService.UpdateKeytab": async (server) => ({
    ...(await keytabId(server)),
    name: "n",
    keytab_data: newKeytab().toString("base64"),
    notes: "d",
    change_reason: "because",
    expected_version: 1,
  }),
  "holdfast.keytabs.v1.KeytabService.DeleteKeytab": keytabId,
  "holdfast.keytabs.v1.KeytabService.DownloadKeytab": keytabId,
  "holdfast.keytabs.v1.KeytabService.ListKeytabHistory": keytabId,
  "holdfast.keytabs.v1.KeytabService.CheckKeytabCompliance": keytabId,
  "holdfast.keytabs.v1.KeytabService.RefreshKeytabCompliance": () => ({}),
  "holdfast.keytabs.v1.KeytabService.GetKeytabDashboard": () => ({}),
  "holdfast.keytabs.v1.CipherPolicyService.GetCipherPolicy": () => ({}),
  "holdfast.keytabs.v1.CipherPolicyService.UpdateCipherPolicy": () => policy,
  "holdfast.keytabs.v1.CipherPolicyService.PreviewCipherPolicy": async (server) => {
    await anyKeytab(server);
    return { ...policy, allowed_ciphers: ["aes128-cts-hmac-sha1-96"], limit: 1 };
  },
  "holdfast.agents.v1.AgentService.CreateEnrollmentToken": () => ({ hostname: anything("host"), ttl_hours: 1 }),
  "holdfast.agents.v1.AgentService.ListEnrollmentTokens": async (server) => {
    await newEnrollmentToken(server);
    return { per_page: 1 };
  },
  "holdfast.agents.v1.AgentService.RevokeEnrollmentToken": async (server) => ({
    id: (await newEnrollmentToken(server)).id,
  }),
  "holdfast.agents.v1.AgentService.ListAgents": async (server) => ({
    search: (await callingHost(server)).hostname,
    status: "online",
  }),
  "holdfast.agents.v1.AgentService.GetAgent": agentId,
  "holdfast.agents.v1.AgentService.DisableAgent": agentId,
  "holdfast.agents.v1.AgentService.EnableAgent": agentId,
  "holdfast.agents.v1.AgentService.DeleteAgent": agentId,
  "holdfast.agents.v1.AgentLinkService.Enroll": async (server) => ({
    enrollment_token: (await newEnrollmentToken(server)).token,
    hostname: anything("host"),
    version: "1.0.0",
    os: "Linux",
  }),
  "holdfast.agents.v1.AgentLinkService.Heartbeat": () => ({ version: "1.0.0", os: "Linux" }),
  "holdfast.agents.v1.AgentLinkService.WatchCommands": () => ({}),
  "holdfast.discovery.v1.DiscoveredKeytabService.ListDiscoveredKeytabs": async (server) => {
    await discoveredId(server);
    return { agent_id: (await answeringHost(server)).id, state: "discovered", is_managed: false, limit: 1 };
  },
  "holdfast.discovery.v1.DiscoveredKeytabService.GetDiscoveredKeytab": (server) => discoveredId(server),
  "holdfast.discovery.v1.DiscoveredKeytabService.ImportDiscoveredKeytab": async (server) => ({
    ...(await discoveredId(server)),
    name: "web server",
    expires_at: "2099-12-31T23:59:59Z",
  }),
  "holdfast.discovery.v1.DiscoveredKeytabService.IgnoreDiscoveredKeytab": async (server) => ({
    ...(await discoveredId(server)),
    reason: "because",
  }),
  "holdfast.discovery.v1.DiscoveredKeytabService.UnignoreDiscoveredKeytab": async (server) => {
    const { id } = await discoveredId(server);
    await server.admin.rest("POST", `/api/v1/keytabs/discovered/${id}/ignore`, {});
    return { id };
  },
  "holdfast.discovery.v1.DiscoveredKeytabService.ResyncDiscoveredKeytab": async (server) => {
    const managed = newKeytab();
    await importKeytab(server.admin, managed);
    return { ...(await discoveredId(server, managed, newKeytab())), change_reason: "because" };
  },
  "holdfast.discovery.v1.KeytabReportService.ReportKeytabs": () => ({
    scan_id: randomUUID(),
    keytabs: [foundKeytab(`/etc/${anything("file")}`, newKeytab({ principal: "host/web.example.com" }))],
    roots: ["/etc"],
    errors: [{ path: "/root", reason: "permission denied" }],
  }),
  "holdfast.discovery.v1.KeytabReportService.UploadKeytab": awaitedUpload,
  "holdfast.gateways.v1.GatewayService.GetGatewayHealth": async (server) => {
    await oneGateway(server);
    return {};
  },
  "holdfast.gateways.v1.GatewayService.ListGateways": async (server) => {
    await oneGateway(server);
    return {};
  },
  "holdfast.gateways.v1.GatewayService.ListGatewayTasks": async (server) => ({
    id: (await quietGateway(server)).id,
    status: "pending",
    limit: 10,
  }),
  "holdfast.gateways.v1.GatewayService.ActivateDr": async (server) => {
    const { environment } = await deactivated(server, true);
    const { id } = await quietGateway(server, { environment, role: "dr-standby" });
    return { environment, gateway_id: id, reason: "because" };
  },
  "holdfast.gateways.v1.GatewayService.Failback": async (server) => ({
    environment: (await deactivated(server, false)).environment,
    reason: "because",
  }),
  "holdfast.gateways.v1.GatewayService.DeactivateGateway": async (server) => ({
    id: (await quietGateway(server)).id,
    reason: "because",
    mark_failed: true,
  }),
  "holdfast.gateways.v1.GatewayService.RetireGateway": async (server) => ({
    id: (await quietGateway(server, { role: "dr-standby" })).id,
  }),
  "holdfast.gateways.v1.GatewayLinkService.Register": () => ({
    name: anything("gateway"),
    environment: anything("environment"),
    role: "primary",
    instance_id: randomUUID(),
    version: "1.0.0",
    hostname: "gw.example.com",
    region: "eu-west-1",
    identity_client_id: "client",
  }),
  "holdfast.gateways.v1.GatewayLinkService.Heartbeat": callingProcess,
  "holdfast.gateways.v1.GatewayLinkService.WatchTasks": callingProcess,
  "holdfast.gateways.v1.GatewayLinkService.ClaimTask": async (server) => {
    await queueTask(server);
    return callingHolder(server);
  },
  "holdfast.gateways.v1.GatewayLinkService.CompleteTask": finishedTask,
  "holdfast.rotation.v1.RotationConfigService.GetRotationConfig": secretId,
  "holdfast.rotation.v1.RotationConfigService.UpdateRotationConfig": async (server) => ({
    ...(await secretId(server)),
    enabled: true,
    interval_days: "30d",
    provider: { type: "gateway", settings: { driver: "command", driver_settings: { command: "rotate-app" } } },
    credentials: { password: "p" },
    gateway_environment: "production",
  }),
  "holdfast.rotation.v1.RotationConfigService.ExecuteRotationConfig": async (server) => ({
    ...(await configId(server)),
    change_reason: "because",
  }),
  "holdfast.rotation.v1.RotationConfigService.ListRotationTasks": async (server) => {
    const { id } = await configId(server);
    await rotationTask(server, id);
    return { id };
  },
  "holdfast.rotation.v1.RotationConfigService.RotateSecret": async (server) => ({
    ...(await secretId(server)),
    value: "v2",
    change_reason: "because",
    expected_version: 1,
  }),
  "holdfast.rotation.v1.RotationTemplateService.ListRotationTemplates": async (server) => {
    const { name, project_id } = await newTemplate(server);
    return { search: name, project_id, per_page: 10 };
  },
  "holdfast.rotation.v1.RotationTemplateService.CreateRotationTemplate": ({ projectId }) => ({
    name: anything("template"),
    description: "d",
    project_id: projectId,
    rotation_interval_days: 90,
    lead_time_days: 14,
    grace_period_days: 7,
    secret_custody_mode: "transient",
  }),
  "holdfast.rotation.v1.RotationTemplateService.GetRotationTemplate": templateId,
  "holdfast.rotation.v1.RotationTemplateService.UpdateRotationTemplate": async (server) => ({
    ...(await templateId(server)),
    description: "d",
    rotation_interval_days: 60,
    is_default: false,
  }),
  "holdfast.rotation.v1.RotationTemplateService.DeleteRotationTemplate": templateId,
  "holdfast.links.v1.LinkService.ListLinks": linkedSecretId,
  "holdfast.links.v1.LinkService.GetLink": linkIds,
  "holdfast.links.v1.LinkService.CreateLink": async (server) => ({ ...(await secretId(server)), ...webhookLink }),
  "holdfast.links.v1.LinkService.UpdateLink": async (server) => ({
    ...(await linkIds(server)),
    name: "m",
    config: { url: "https://sync.example.com/other" },
    sync_enabled: false,
  }),
  "holdfast.links.v1.LinkService.DeleteLink": linkIds,
  "holdfast.links.v1.LinkService.GetSyncStatus": linkedSecretId,
  "holdfast.links.v1.LinkService.ForceSync": linkedSecretId,
  "holdfast.links.v1.LinkService.ForceEnvironmentSync": async (server) => ({
    ...(await linkedSecretId(server)),
    environment: "production",
  }),
  "holdfast.certificates.v1.CertificateAuthorityService.CreateCertificateAuthority": async (server) => ({
    name: anything("authority"),
    type: "intermediate",
    parent_id: (await newAuthority(server)).id,
    subject: { common_name: "Example Issuing CA", organization: "Example", country: "DE" },
    key_algorithm: "ECDSA",
    key_size: 256,
    validity_days: 365,
    max_path_length: 1,
    name_constraints: { permitted: { dns: ["example.com"] }, excluded: { ip: ["10.0.0.0/8"] } },
  }),
  "holdfast.certificates.v1.CertificateAuthorityService.ListCertificateAuthorities": async (server) => ({
    search: (await newAuthority(server)).name,
    status: "active",
    type: "root",
    per_page: 10,
  }),
  "holdfast.certificates.v1.CertificateAuthorityService.GetCertificateAuthority": authorityId,
  "holdfast.certificates.v1.CertificateAuthorityService.UpdateCertificateAuthority": async (server) => ({
    ...(await authorityId(server)),
    name: anything("authority"),
    status: "disabled",
  }),
  "holdfast.certificates.v1.CertificateAuthorityService.RevokeCertificateAuthority": async (server) => ({
    ...(await authorityId(server)),
    reason: "superseded",
  }),
  "holdfast.certificates.v1.CertificateAuthorityService.DownloadCrl": listedAuthorityId,
  "holdfast.certificates.v1.CertificateService.IssueCertificate": async (server) => ({
    ca_id: (await newAuthority(server)).id,
    project_id: server.projectId,
    subject: { common_name: `${anything("host")}.example.com`, organization: "Example", country: "DE" },
    subject_alternative_names: { dns: ["www.example.com"], ip: ["192.0.2.1"] },
    key_algorithm: "ECDSA",
    key_size: 256,
    validity_days: 30,
    profile: "server_client",
    auto_renew: true,
  }),
  "holdfast.certificates.v1.CertificateService.ListCertificates": async (server) => {
    const { ca_id, project_id, subject } = await newCertificate(server);
    return { ca_id, project_id, status: "active", search: subject.common_name, per_page: 10 };
  },
  "holdfast.certificates.v1.CertificateService.GetCertificate": certificateId,
  "holdfast.certificates.v1.CertificateService.UpdateCertificate": async (server) => ({
    ...(await certificateId(server)),
    auto_renew: true,
  }),
  "holdfast.certificates.v1.CertificateService.RenewCertificate": async (server) => ({
    ...(await certificateId(server)),
    validity_days: 30,
  }),
  "holdfast.certificates.v1.CertificateService.RevokeCertificate": async (server) => ({
    ...(await certificateId(server)),
    reason: "superseded",
  }),
  // Signatures are of different lengths.
  "holdfast.certificates.v1.CertificateService.DownloadCertificate": async (server) => ({
    id: (await anyCertificate(server)).id,
    format: "der",
  }),
  "holdfast.governance.v1.GovernanceReportService.ImportGovernanceReport": () => ({ report: governanceReport }),
  "holdfast.governance.v1.GovernanceReportService.ListGovernanceReports": async (server) => {
    await reportId(server);
    return { page: 1, per_page: 1 };
  },
  "holdfast.governance.v1.GovernanceReportService.GetGovernanceReport": reportId,
  "holdfast.governance.v1.GovernanceReportService.GetCurrentGovernanceReport": async (server) => {
    await reportId(server);
    return {};
  },
  "holdfast.governance.v1.GovernanceReportService.EvaluateGovernanceReport": reportId,
  "holdfast.governance.v1.GovernanceReportService.DeleteGovernanceReport": reportId,
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

const agent = async (server: TestServer) => (await callingHost(server)).client;
const gateway = async (server: TestServer) => (await callingGateway(server)).client;

/** Who calls where the administrator's own token will not do: an agent, a gateway, or for each call somebody new. */
const callers: Readonly<Record<string, (server: TestServer) => Promise<Client>>> = {
  "holdfast.agents.v1.AgentLinkService.Heartbeat": agent,
  "holdfast.agents.v1.AgentLinkService.WatchCommands": agent,
  "holdfast.discovery.v1.KeytabReportService.ReportKeytabs": agent,
  "holdfast.discovery.v1.KeytabReportService.UploadKeytab": agent,
  "holdfast.gateways.v1.GatewayLinkService.Register": gateway,
  "holdfast.gateways.v1.GatewayLinkService.Heartbeat": gateway,
  "holdfast.gateways.v1.GatewayLinkService.WatchTasks": gateway,
  "holdfast.gateways.v1.GatewayLinkService.ClaimTask": gateway,
  "holdfast.gateways.v1.GatewayLinkService.CompleteTask": gateway,
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
