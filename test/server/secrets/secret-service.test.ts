import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();

describe("CreateSecret", () => {
  it("answers 201 with the metadata, a Location, and never the value", async () => {
    const { status, headers, body } = await server.admin.rest("POST", "/api/v1/secrets", {
      key: "DB_PASSWORD",
      value: "hunter2",
      project_id: server.projectId,
    });

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(`/api/v1/secrets/${body.id}`);
    expect(body).not.to.have.property("value");
  });
});
