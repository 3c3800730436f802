import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect } from "chai";
import { renderOpenApi } from "../../src/contract/generate-openapi.ts";
import { errorCodes } from "../../src/server/errors.ts";
import { bindingsOf } from "../../src/server/wire/http-rule.ts";
import type { Answer } from "../harness/client.ts";
import { TestGateway } from "../harness/gateway.ts";
import { foundKeytab, Host } from "../harness/host.ts";
import { newKeytab } from "../harness/keytabs.ts";
import { useServer } from "../harness/server.ts";
import { faultsOf, resolve, type Schema } from "./schema-faults.ts";
import { allMethods } from "./services.ts";

interface Parameter {
  readonly $ref?: string;
  readonly name?: string;
  readonly required?: boolean;
  readonly schema?: Schema;
}

interface Response {
  readonly $ref?: string;
  readonly headers?: Readonly<Record<string, Schema>>;
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}

interface Operation {
  readonly operationId: string;
  readonly security?: readonly unknown[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Readonly<Record<string, unknown>> };
  readonly responses: Readonly<Record<string, Response>>;
  readonly [extension: `x-${string}`]: unknown;
}

interface OpenApi {
  readonly info: { readonly version: string };
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly headers: Readonly<Record<string, unknown>>;
    readonly schemas: Readonly<Record<string, Schema>>;
  };
}

const root = new URL("../../", import.meta.url);
const file = readFileSync(new URL("gen/openapi.json", root), "utf8");
const document: OpenApi = JSON.parse(file);
const operations = new Map(
  Object.values(document.paths).flatMap((path) =>
    Object.values(path).map((operation) => [operation.operationId, operation] as const),
  ),
);

function operation(id: string): Operation {
  const found = operations.get(id);
  if (found === undefined) throw new Error(`the document has no ${id}`);
  return found;
}

const schema = (name: string) => resolve(document, `#/components/schemas/${name}`) as Schema;
const property = (name: string, field: string) => schema(name).properties?.[field];
const parameterNames = (id: string) =>
  (operation(id).parameters ?? []).map(({ $ref, name }) => name ?? (resolve(document, $ref ?? "") as Parameter).name);

describe("the OpenAPI document", () => {
  it("is what the protos say now", () => {
    const rendered = renderOpenApi();

    expect(rendered === file, "run npm run generate").to.equal(true);
  });

  it("is valid OpenAPI 3.1", async () => {
    const validator = new Validator();

    const { valid, errors } = await validator.validate(JSON.parse(file));

    expect(errors).to.equal(undefined);
    expect(valid).to.equal(true);
    expect(validator.version).to.equal("3.1");
  });

  it("holds every method that has an HTTP rule, at its verb and path, and nothing else", async () => {
    const methods = await allMethods();
    const declared = methods.flatMap((method) =>
      bindingsOf(method).map(({ verb, template }) => `${verb} ${template} ${method.name}`),
    );

    const documented = Object.entries(document.paths).flatMap(([path, verbs]) =>
      Object.entries(verbs).map(([verb, { operationId }]) => `${verb.toUpperCase()} ${path} ${operationId}`),
    );

    expect(declared).not.to.have.length(0);
    expect(documented).to.have.members(declared);
    const served = methods.filter((method) => bindingsOf(method).length > 0);
    expect(new Set(document.tags.map(({ name }) => name))).to.deep.equal(
      new Set(served.map(({ parent }) => parent.name)),
    );
  });

  it("says nothing of what only programs call over gRPC", () => {
    expect([...operations.keys()])
      .not.to.include.members(["Enroll"])
      .and.not.to.include.members(["ReportKeytabs"]);
    expect(document.components.schemas).not.to.have.any.keys("EnrollRequest", "Command", "ReportedKeytab");
  });

  it("has the version of the package", () => {
    const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));

    expect(document.info.version).to.equal(version);
  });

  it("says of a method who may call it and what is recorded", () => {
    const copy = operation("CopySecret");

    expect(copy).to.include({
      "x-permission": "secret:read",
      "x-target-permission": "secret:write",
      "x-audit-action": "secret.copy",
    });
    expect(operation("ActivateDr")).to.include({
      "x-role": "gateway:admin",
      "x-audit-action": "gateway.activate_dr",
    });
    expect(operation("CreateToken").security).to.deep.equal([]);
    expect(copy.security, "the document's own: bearerAuth").to.equal(undefined);
  });

  it("puts the path, the query and the body of a request where they belong", () => {
    expect(parameterNames("UpdateSecret")).to.deep.equal(["id", "If-Match"]);
    expect(parameterNames("CopySecret")).to.deep.equal(["id", "Idempotency-Key"]);
    expect(parameterNames("GetSecret")).to.deep.equal(["id", "version", "view", "If-None-Match"]);
    expect(schema("UpdateSecretRequest").properties).not.to.have.any.keys("id", "update_mask");
    expect(operation("ArchiveSecret").requestBody).to.equal(undefined);
    expect(Object.keys(operation("CreateToken").requestBody?.content ?? {})).to.deep.equal([
      "application/json",
      "application/x-www-form-urlencoded",
    ]);
  });

  it("demands of a request what its rules demand, and no more", () => {
    expect(schema("CreateSecretRequest").required).to.deep.equal(["key", "value", "project_id"]);
    expect(schema("UpdateSecretRequest")).not.to.have.property("required");
    expect(property("CreateSecretRequest", "key")).to.include({ minLength: 1, maxLength: 255 });
    expect(property("CreateSecretRequest", "key")?.["x-aliases"]).to.deep.equal(["name"]);
    expect(property("CreateSecretRequest", "value")?.["x-max-bytes"]).to.equal(65_536);
    expect(property("CreateSecretRequest", "project_id")).to.include({ format: "uuid" });
    expect(property("CreateSecretRequest", "ttl_hours")).to.include({ type: "integer", minimum: 1, maximum: 8760 });
    expect(property("CreateSecretRequest", "type")?.enum).to.include("connection_string");
    expect(property("CreateSecretRequest", "tags")).to.deep.include({
      maxItems: 50,
      items: { type: "string", minLength: 1, maxLength: 64 },
    });
  });

  it("lets a request be null only where null clears a field", () => {
    expect(property("UpdateSecretRequest", "description")?.type).to.deep.equal(["string", "null"]);
    expect(property("UpdateSecretRequest", "value")?.type).to.equal("string");
    expect(property("UpdateRotationTemplateRequest", "project_id")?.type).to.deep.equal(["string", "null"]);
    expect(property("CreateRotationTemplateRequest", "project_id")?.type).to.equal("string");
  });

  it("promises every field of an answer, null where there is nothing to say, unless the field is left out then", () => {
    const secret = schema("Secret");

    expect(secret.required).to.include.members(["environment", "expires_at"]);
    expect(secret.required).not.to.include.members(["value"]);
    expect(property("Secret", "environment")?.type).to.deep.equal(["string", "null"]);
    expect(property("Secret", "expires_at")).to.deep.include({ type: ["string", "null"], format: "date-time" });
    expect(property("Secret", "rotation")?.anyOf).to.deep.equal([
      { $ref: "#/components/schemas/SecretRotation" },
      { type: "null" },
    ]);
    expect(property("Secret", "value")?.type).to.equal("string");
  });

  it("marks what must not be shown, and what never comes back", () => {
    expect(property("Secret", "value")?.format).to.equal("password");
    expect(property("CreateSecretRequest", "value"))
      .to.include({ format: "password" })
      .and.not.have.property("writeOnly");
    expect(property("LoginUniversalRequest", "client_secret")).to.include({ format: "password", writeOnly: true });
    for (const request of ["CreateLinkRequest", "UpdateLinkRequest", "UpdateRotationConfigRequest"]) {
      expect(property(request, "credentials"), request).to.include({ writeOnly: true });
    }
    for (const record of ["Link", "RotationConfig"]) expect(schema(record).properties).not.to.have.key("credentials");
  });

  it("has maps as objects whose properties nobody knows beforehand", () => {
    expect(property("KeytabCompliance", "cipher_violations")).to.deep.include({
      type: "object",
      additionalProperties: { type: "string" },
    });
  });

  it("has lists that are the whole answer, and fields that may hold JSON of several types", () => {
    const { content } = operation("ListGateways").responses["200"] ?? {};

    expect(content?.["application/json"]?.schema).to.include({ type: "array" });
    expect(property("UpdateRotationConfigRequest", "interval_days")?.["type"]).to.deep.equal(["integer", "string"]);
    expect(property("UpdateRotationConfigRequest", "interval_days")?.["x-aliases"]).to.deep.equal([
      "interval",
      "rotation_interval_days",
    ]);
  });

  it("has bytes as base64, and says of a file in a request that it never comes back", () => {
    expect(property("ImportKeytabRequest", "keytab_data")).to.include({
      type: "string",
      contentEncoding: "base64",
      writeOnly: true,
    });
    expect(schema("ImportKeytabRequest").required).to.deep.equal(["name", "keytab_data"]);
  });

  it("has files as bytes, with the headers that say their name and their hash", () => {
    const { responses } = operation("DownloadKeytab");

    expect(responses["200"]?.content).to.deep.equal({ "application/octet-stream": {} });
    expect(responses["200"]?.headers).to.include.keys("Content-Disposition", "ETag");
    expect(responses["404"]).to.deep.equal({ $ref: "#/components/responses/NotFound" });
  });

  it("has the one body of errors, with every code", () => {
    const { error } = schema("Error").properties ?? {};

    expect(error?.required).to.deep.equal(["code", "message", "details", "request_id"]);
    expect(Object.keys(error?.properties ?? {})).to.deep.equal(error?.required);
    expect(error?.properties?.["code"]?.enum).to.deep.equal(Object.keys(errorCodes));
    expect(error?.properties?.["details"]?.items?.required).to.deep.equal(["field", "message"]);
  });

  it("names the headers of limits except for methods without a limit", () => {
    const headersOf = (id: string) => Object.keys(operation(id).responses["200"]?.headers ?? {});

    expect(headersOf("ListSecrets")).to.include.members(["X-RateLimit-Remaining", "X-Total-Count", "X-Request-Id"]);
    expect(headersOf("CreateToken")).to.include("X-RateLimit-Remaining");
    expect(headersOf("GetSystemHealth")).to.deep.equal(["X-Request-Id"]);
    expect(headersOf("GetSecret")).to.include("ETag");
  });

  it("names the headers of pages for either envelope of lists", () => {
    for (const id of ["ListSecrets", "ListRotationTemplates", "ListAgents", "ListKeytabs", "ListDiscoveredKeytabs"]) {
      const { headers } = operation(id).responses["200"] ?? {};
      expect(headers, id).to.include.keys("X-Total-Count", "X-Page", "X-Per-Page");
    }
    expect(operation("ListKeytabHistory").responses["200"]?.headers).not.to.have.any.keys("X-Total-Count", "X-Page");
  });

  it("offers If-None-Match where a read would be recorded, and the version wherever a change may expect it", () => {
    expect(parameterNames("GetKeytab")).to.deep.equal(["id"]);
    expect(operation("GetKeytab").responses).not.to.have.property("304");
    expect(operation("GetKeytab").responses["200"]?.headers).to.include.keys("ETag");
    expect(parameterNames("UpdateKeytab")).to.deep.equal(["id", "If-Match"]);
    expect(parameterNames("RotateSecret")).to.deep.equal(["id", "Idempotency-Key", "If-Match"]);
  });
});

describe("a real answer", () => {
  const server = useServer({ KEYTAB_ENABLED: "true", RATE_LIMIT_API: "1000", RATE_LIMIT_AUTH: "1000" });
  let host: Host;
  before(async () => {
    host = await Host.enroll(server);
    const report = [foundKeytab("/etc/krb5.keytab", newKeytab({ principal: "host/web.example.com" }))];
    await host.report(report, { errors: [{ path: "/etc/private", reason: "permission denied" }] });
  });
  after(() => host.close());

  /** Where the answer, its body and its headers, is not what the document says. */
  function differences(id: string, { status, headers, body }: Answer): string[] {
    const declared = operation(id).responses[status];
    if (declared === undefined) return [`${id} does not declare ${status}`];
    const response = declared.$ref === undefined ? declared : (resolve(document, declared.$ref) as Response);
    const undeclared = Object.keys(document.components.headers).filter(
      (name) => headers.has(name) && response.headers?.[name] === undefined,
    );
    const [type = ""] = (headers.get("content-type") ?? "").split(";");
    if (response.content === undefined ? body !== "" : response.content[type] === undefined)
      return [`the body is ${type}`];
    const { schema: declaredBody = {} } = response.content?.[type] ?? {};
    const faults = faultsOf(document, declaredBody, body);
    return [...undeclared.map((name) => `${name} is not declared`), ...faults];
  }

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
