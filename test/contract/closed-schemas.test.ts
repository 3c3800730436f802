import { readFileSync } from "node:fs";
import { expect } from "chai";

const document = JSON.parse(readFileSync(new URL("../../gen/openapi.json", import.meta.url), "utf8"));
const { schemas } = document.components;

describe("The OpenAPI document", () => {
  it("says of closed messages of requests that they hold nothing else", () => {
    const { GovernanceReportInput: report, PasswordPolicyInput: group, CreateSecretRequest: open } = schemas;

    expect(report.additionalProperties).to.equal(false);
    expect(group.additionalProperties).to.equal(false);
    expect(open).not.to.have.property("additionalProperties");
  });

  it("says nothing of the kind of answers, which may grow", () => {
    expect(schemas.GovernanceReport).not.to.have.property("additionalProperties");
  });

  it("has both forms of a body that may be one of its fields, neither of which needs anything", () => {
    const { requestBody } = document.paths["/api/v1/governance/reports"].post;

    expect(requestBody).not.to.have.property("required");
    expect(requestBody.content["application/json"].schema).to.deep.equal({
      oneOf: [
        { $ref: "#/components/schemas/GovernanceReportInput" },
        { $ref: "#/components/schemas/ImportGovernanceReportRequest" },
      ],
    });
    expect(schemas.ImportGovernanceReportRequest).to.deep.include({
      required: ["report"],
      additionalProperties: false,
    });
  });

  it("takes any JSON for what a rule requires", () => {
    expect(schemas.GovernanceResult.properties.required).to.have.all.keys("description");
  });
});
