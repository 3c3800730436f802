import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect } from "chai";
import { renderOpenApi } from "../../src/contract/generate-openapi.ts";
import { errorCodes } from "../../src/server/errors.ts";
import { bindingsOf } from "../../src/server/wire/http-rule.ts";
import { document, file, operation, operations, type Parameter, schema } from "./openapi-document.ts";
import { resolve } from "./schema-faults.ts";
import { allMethods } from "./services.ts";

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
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));

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
