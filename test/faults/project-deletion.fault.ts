import { expect } from "chai";
import { useServer } from "../harness/server.ts";
import { Authorities } from "../server/certificates/authorities.ts";
import { Certificates } from "../server/certificates/certificates.ts";

const many = 100_000;

describe("A project of 100,000 certificates", () => {
  const server = useServer({ LOG_LEVEL: "warn" });
  const certificates = new Certificates(server);

  it("is deleted, with each statement within its time, and leaves them to the organization", async () => {
    const root = await new Authorities(server).root();
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "large" });
    const { id } = await certificates.issued({ ca_id: root.id, project_id: project.id });
    await certificates.copy(id, many);
    const began = performance.now();

    const { status, body } = await server.admin.rest("DELETE", `/api/v1/projects/${project.id}`);

    console.log(`      ${Math.round(performance.now() - began)} ms`);
    expect(status, JSON.stringify(body)).to.equal(204);
    const [left] = await server.sql("select count(*)::int as n, count(project_id)::int as held from certificate");
    expect(left).to.deep.equal({ n: many + 1, held: 0 });
  });
});
