import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Answer } from "../harness/client.ts";
import { TestGateway } from "../harness/gateway.ts";
import { foundKeytab, Host } from "../harness/host.ts";
import { newKeytab } from "../harness/keytabs.ts";
import { useServer } from "../harness/server.ts";
import { differences } from "./openapi-document.ts";

describe("a real answer", () => {
  const server = useServer({ KEYTAB_ENABLED: "true", RATE_LIMIT_API: "1000", RATE_LIMIT_AUTH: "1000" });
  let host: Host;
  before(async () => {
    host = await Host.enroll(server);
    const report = [foundKeytab("/etc/krb5.keytab", newKeytab({ principal: "host/web.example.com" }))];
    await host.report(report, { errors: [{ path: "/etc/private", reason: "permission denied" }] });
  });
  after(() => host.close());

  type Ask = () => Promise<Answer>;
  const secrets = "/api/v1/secrets";
  const create = (fields: object = {}) =>
    server.admin.rest("POST", secrets, {
      key: `k-${Math.random()}`,
      value: "v",
      project_id: server.projectId,
      ...fields,
    });
  const full = {
    environment: "production",
    ttl_hours: 1,
    tags: ["a"],
    metadata: { owner: "payments", nested: { deep: [1] } },
    rotation: { enabled: true, interval_days: 7 },
  };
  const withSecret = (ask: (id: string, fields: { version: number }) => Promise<Answer>) => async () => {
    const { body } = await create(full);
    return ask(body.id, body);
  };
  const identity = () =>
    server.admin.rest("POST", "/api/v1/machine-identities", {
      name: `m-${Math.random()}`,
      project_roles: [{ project_id: server.projectId, role: "viewer" }],
    });
  const keytabs = "/api/v1/keytabs";
  const importing = (fields: object = {}) =>
    server.admin.rest("POST", keytabs, { name: "n", keytab_data: newKeytab().toString("base64"), ...fields });
  const withKeytab =
    (verb: string, path = "", fields?: object) =>
    async () => {
      const { body } = await importing({ project_id: server.projectId });
      return server.admin.rest(verb, `${keytabs}/${body.id}${path}`, fields);
    };
  const gateways = "/api/v1/admin/gateways";
  const gateway = async (fields: { role?: "dr-standby"; environment?: string } = {}) => {
    const registered = await TestGateway.register(server, fields);
    registered.close();
    return registered;
  };
  const withGateway =
    (verb: string, path = "", fields?: object) =>
    async () =>
      server.admin.rest(verb, `${gateways}/${(await gateway()).id}${path}`, fields);
  const failover = async (operation: string, markFailed: boolean) => {
    const primary = await gateway();
    await gateway({ role: "dr-standby", environment: primary.environment });
    await server.admin.rest("POST", `${gateways}/${primary.id}/deactivate`, { mark_failed: markFailed });
    return server.admin.rest("POST", `/api/v1/admin/failover/${primary.environment}/${operation}`, {});
  };
  const configOf = async (fields: object = {}) => {
    const { body } = await create(full);
    return (await server.admin.rest("PUT", `${secrets}/${body.id}/rotation-config`, fields)).body;
  };
  const executed = async (fields: object = {}) => {
    const { id } = await configOf(fields);
    const answer = await server.admin.rest("POST", `/api/v1/rotation/configs/${id}/execute`, {});
    return { id, answer };
  };
  const command = { driver: "command", driver_settings: { command: "rotate-app" } };
  const byGateway = { provider: "gateway", provider_settings: command, credentials: { a: "b" } };
  // Nothing listens on port 1.
  const away = { provider: "webhook", provider_settings: { url: "http://127.0.0.1:1/" } };
  const rotated = ({ secret_id }: { secret_id: string }) =>
    server.admin.rest("POST", `${secrets}/${secret_id}/rotate`, {});
  const templates = "/api/v1/rotation/templates";
  const templating = (fields: object = {}) => server.admin.rest("POST", templates, { name: randomUUID(), ...fields });
  const fullTemplate = () => ({
    description: "d",
    project_id: server.projectId,
    rotation_interval_days: 90,
    lead_time_days: 14,
    grace_period_days: 7,
    secret_custody_mode: "delegated",
    is_default: true,
  });
  const withTemplate = (verb: string, fields?: object) => async () =>
    server.admin.rest(verb, `${templates}/${(await templating(fullTemplate())).body.id}`, fields);
  const linking = (secretId: string, fields: object = {}) =>
    server.admin.rest("POST", `${secrets}/${secretId}/links`, {
      integration: "webhook",
      config: { url: "https://sync.example.com/hook", headers: { "x-team": "payments" } },
      credentials: { signing_secret: "s" },
      ...fields,
    });
  interface Link {
    readonly id: string;
    readonly secret_id: string;
  }
  const withLink = (verb: string, path = ({ id, secret_id }: Link) => `${secret_id}/links/${id}`, fields?: object) =>
    withSecret(async (id) => server.admin.rest(verb, `${secrets}/${path((await linking(id)).body)}`, fields));
  const login = () => ({ client_id: server.clientId, client_secret: server.clientSecret });

  const answers: readonly (readonly [id: string, what: string, status: number, ask: Ask])[] = [
    ["CreateSecret", "with the least", 201, () => create()],
    ["CreateSecret", "with everything", 201, () => create(full)],
    ["CreateSecret", "without a key", 400, () => create({ key: "" })],
    ["CreateSecret", "by nobody", 401, () => server.anonymous.rest("POST", secrets, {})],
    ["ListSecrets", "", 200, () => server.admin.rest("GET", `${secrets}?project_id=${server.projectId}`)],
    ["ListSecrets", "without a project", 400, () => server.admin.rest("GET", secrets)],
    ["GetSecret", "", 200, withSecret((id) => server.admin.rest("GET", `${secrets}/${id}`))],
    ["GetSecret", "as metadata", 200, withSecret((id) => server.admin.rest("GET", `${secrets}/${id}?view=metadata`))],
    [
      "GetSecret",
      "that is known",
      304,
      withSecret((id) => server.admin.rest("GET", `${secrets}/${id}`, undefined, { "if-none-match": '"1"' })),
    ],
    ["GetSecret", "that is not there", 404, () => server.admin.rest("GET", `${secrets}/nonsense`)],
    ["UpdateSecret", "", 200, withSecret((id) => server.admin.rest("PUT", `${secrets}/${id}`, { value: "w" }))],
    [
      "UpdateSecret",
      "of another version",
      409,
      withSecret((id) => server.admin.rest("PUT", `${secrets}/${id}`, { value: "w", cas: 9 })),
    ],
    [
      "RollbackSecret",
      "",
      200,
      withSecret((id, { version }) => server.admin.rest("POST", `${secrets}/${id}/rollback`, { version })),
    ],
    [
      "CopySecret",
      "",
      201,
      withSecret((id) => server.admin.rest("POST", `${secrets}/${id}/copy`, { key: `copy-${Math.random()}` })),
    ],
    ["ArchiveSecret", "", 200, withSecret((id) => server.admin.rest("POST", `${secrets}/${id}/archive`))],
    ["ListSecretVersions", "", 200, withSecret((id) => server.admin.rest("GET", `${secrets}/${id}/versions`))],
    [
      "ListSecretConsumers",
      "",
      200,
      withSecret(async (id) => {
        await server.admin.rest("GET", `${secrets}/${id}`);
        return server.admin.rest("GET", `${secrets}/${id}/consumers`);
      }),
    ],
    ["RotateSecret", "", 200, withSecret((id) => server.admin.rest("POST", `${secrets}/${id}/rotate`))],
    [
      "RotateSecret",
      "of another version",
      409,
      withSecret((id) => server.admin.rest("POST", `${secrets}/${id}/rotate`, { cas: 9 })),
    ],
    ["DeleteSecret", "", 204, withSecret((id) => server.admin.rest("DELETE", `${secrets}/${id}`))],
    ["ListProjects", "", 200, () => server.admin.rest("GET", "/api/v1/projects")],
    ["ListOrganizations", "", 200, () => server.admin.rest("GET", "/api/v1/organizations")],
    [
      "CreateOrganization",
      "",
      201,
      () => server.admin.rest("POST", "/api/v1/organizations", { name: `${Math.random()}` }),
    ],
    ["CreateMachineIdentity", "", 201, identity],
    ["ListMachineIdentities", "", 200, () => server.admin.rest("GET", "/api/v1/machine-identities")],
    [
      "CreateClientSecret",
      "",
      201,
      async () => server.admin.rest("POST", `/api/v1/machine-identities/${(await identity()).body.id}/client-secrets`),
    ],
    [
      "ListClientSecrets",
      "",
      200,
      () => server.admin.rest("GET", `/api/v1/machine-identities/${server.admin.id}/client-secrets`),
    ],
    ["ImportKeytab", "with the least", 201, () => importing()],
    [
      "ImportKeytab",
      "with everything",
      201,
      () => importing({ project_id: server.projectId, expires_at: "2099-01-01T00:00:00Z", notes: "n" }),
    ],
    ["ImportKeytab", "that is none", 400, () => importing({ keytab_data: "bm9uZQ==" })],
    ["ListKeytabs", "", 200, () => server.admin.rest("GET", `${keytabs}?limit=100`)],
    ["GetKeytab", "", 200, withKeytab("GET")],
    ["GetKeytab", "that is not there", 404, () => server.admin.rest("GET", `${keytabs}/nonsense`)],
    ["UpdateKeytab", "", 200, withKeytab("PUT", "", { notes: "d" })],
    ["UpdateKeytab", "of another version", 409, withKeytab("PUT", "", { notes: "d", cas: 9 })],
    ["DownloadKeytab", "", 200, withKeytab("GET", "/download")],
    ["DownloadKeytab", "of a version that is not there", 404, withKeytab("GET", "/download?version=9")],
    ["ListKeytabHistory", "", 200, withKeytab("GET", "/history")],
    ["CheckKeytabCompliance", "", 200, withKeytab("POST", "/check-compliance")],
    ["DeleteKeytab", "", 204, withKeytab("DELETE")],
    ["RefreshKeytabCompliance", "", 200, () => server.admin.rest("POST", `${keytabs}/refresh-compliance`)],
    ["GetKeytabDashboard", "", 200, () => server.admin.rest("GET", `${keytabs}/dashboard`)],
    ["GetCipherPolicy", "", 200, () => server.admin.rest("GET", `${keytabs}/cipher-policy`)],
    [
      "PreviewCipherPolicy",
      "",
      200,
      () =>
        server.admin.rest("POST", `${keytabs}/cipher-policy/preview`, {
          allowed_ciphers: ["des-cbc-md5"],
          deprecated_ciphers: [],
          enforcement_mode: "enforce",
        }),
    ],
    ["ListDiscoveredKeytabs", "", 200, () => server.admin.rest("GET", `${keytabs}/discovered`)],
    ["CreateEnrollmentToken", "", 201, () => server.admin.rest("POST", "/api/v1/agents/enrollment-tokens", {})],
    ["ListEnrollmentTokens", "", 200, () => server.admin.rest("GET", "/api/v1/agents/enrollment-tokens")],
    ["ListAgents", "", 200, () => server.admin.rest("GET", "/api/v1/agents")],
    ["GetAgent", "", 200, () => server.admin.rest("GET", `/api/v1/agents/${host.id}`)],
    [
      "GetGatewayHealth",
      "",
      200,
      async () => {
        const { environment } = await gateway();
        await gateway({ role: "dr-standby", environment });
        return server.admin.rest("GET", "/api/v1/admin/gateway-health");
      },
    ],
    ["GetGatewayHealth", "by nobody", 401, () => server.anonymous.rest("GET", "/api/v1/admin/gateway-health")],
    ["ListGateways", "", 200, () => server.admin.rest("GET", gateways)],
    ["ListGatewayTasks", "", 200, withGateway("GET", "/tasks?status=pending&limit=5")],
    ["ListGatewayTasks", "of a status that there is not", 400, withGateway("GET", "/tasks?status=done")],
    ["ListGatewayTasks", "of a gateway that is not there", 404, () => server.admin.rest("GET", `${gateways}/x/tasks`)],
    ["DeactivateGateway", "", 200, withGateway("POST", "/deactivate", { mark_failed: true })],
    ["RetireGateway", "that is active", 409, withGateway("DELETE")],
    [
      "RetireGateway",
      "",
      204,
      async () => server.admin.rest("DELETE", `${gateways}/${(await gateway({ role: "dr-standby" })).id}`),
    ],
    ["ActivateDr", "", 200, () => failover("activate-dr", true)],
    ["ActivateDr", "whose primary has not failed", 409, () => failover("activate-dr", false)],
    ["ActivateDr", "that is not there", 404, () => server.admin.rest("POST", "/api/v1/admin/failover/x/activate-dr")],
    ["Failback", "", 200, () => failover("failback", false)],
    ["GetRotationConfig", "", 200, withSecret((id) => server.admin.rest("GET", `${secrets}/${id}/rotation-config`))],
    [
      "UpdateRotationConfig",
      "",
      200,
      withSecret((id) =>
        server.admin.rest("PUT", `${secrets}/${id}/rotation-config`, { interval: "30d", ...byGateway }),
      ),
    ],
    [
      "UpdateRotationConfig",
      "with a provider that there is not",
      400,
      withSecret((id) => server.admin.rest("PUT", `${secrets}/${id}/rotation-config`, { provider: "magic" })),
    ],
    ["ExecuteRotationConfig", "", 200, async () => (await executed()).answer],
    ["ExecuteRotationConfig", "by a gateway", 200, async () => (await executed(byGateway)).answer],
    [
      "ListRotationTasks",
      "",
      200,
      async () => server.admin.rest("GET", `/api/v1/rotation/configs/${(await executed()).id}/tasks`),
    ],
    ["RotateSecret", "whose target is away", 503, async () => rotated(await configOf(away))],
    ["CreateRotationTemplate", "with the least", 201, () => templating()],
    ["CreateRotationTemplate", "with everything", 201, () => templating(fullTemplate())],
    ["CreateRotationTemplate", "without a name", 400, () => templating({ name: "" })],
    ["CreateRotationTemplate", "for another organization", 403, () => templating({ organization_id: randomUUID() })],
    ["CreateRotationTemplate", "for a project that is not there", 404, () => templating({ project_id: randomUUID() })],
    ["ListRotationTemplates", "", 200, () => server.admin.rest("GET", `${templates}?per_page=100`)],
    ["GetRotationTemplate", "", 200, withTemplate("GET")],
    ["GetRotationTemplate", "that is not there", 404, () => server.admin.rest("GET", `${templates}/x`)],
    ["UpdateRotationTemplate", "", 200, withTemplate("PUT", { is_default: true, project_id: null })],
    ["DeleteRotationTemplate", "", 204, withTemplate("DELETE")],
    ["CreateLink", "", 201, withSecret((id) => linking(id))],
    ["CreateLink", "of a kind that there is not", 400, withSecret((id) => linking(id, { integration: "magic" }))],
    ["ListLinks", "", 200, withLink("GET", ({ secret_id }) => `${secret_id}/links`)],
    ["GetLink", "", 200, withLink("GET")],
    ["UpdateLink", "", 200, withLink("PUT", undefined, { sync_enabled: false })],
    ["DeleteLink", "", 204, withLink("DELETE")],
    ["GetSyncStatus", "", 200, withLink("GET", ({ secret_id }) => `${secret_id}/sync-status`)],
    ["ForceSync", "", 200, withLink("POST", ({ secret_id }) => `${secret_id}/force-sync`)],
    [
      "ForceEnvironmentSync",
      "",
      200,
      withLink("POST", ({ secret_id }) => `${secret_id}/environments/production/force-sync`),
    ],
    ["ListAuditEvents", "", 200, () => server.admin.rest("GET", "/api/v1/audit-logs?per_page=100")],
    ["LoginUniversal", "", 200, () => server.anonymous.rest("POST", "/api/v1/auth/universal-auth/login", login())],
    ["CreateToken", "without a grant", 400, () => server.anonymous.rest("POST", "/oauth/token", login())],
    ["GetHealth", "", 200, () => server.anonymous.rest("GET", "/api/v1/health")],
    ["GetDatabaseHealth", "", 200, () => server.anonymous.rest("GET", "/api/v1/health/database")],
    ["GetSystemHealth", "", 200, () => server.admin.rest("GET", "/api/v1/health/system")],
  ];

  for (const [id, what, status, ask] of answers) {
    it(`of ${id}${what === "" ? "" : ` ${what}`} is what the document says`, async () => {
      const answer = await ask();

      expect(answer.status).to.equal(status);
      expect(differences(id, answer)).to.deep.equal([]);
    });
  }

  it("that the document does not describe is noticed", async () => {
    const { body, ...answer } = await create();
    const { tags, ...untagged } = body;

    const found = differences("CreateSecret", { ...answer, body: { ...untagged, version: "1", surprise: tags } });

    expect(found).to.have.members([
      "answer.tags is missing",
      'answer.version is "1", not integer',
      "answer.surprise is not in the document",
    ]);
  });
});
