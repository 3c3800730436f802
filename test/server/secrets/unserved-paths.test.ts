import { expect } from "chai";
import { useServer } from "../../harness/server.ts";

const server = useServer();

describe("Paths of secrets that nothing serves", () => {
  it("answer 404, not 405, in the specified shape", async () => {
    const { id } = await server.secret();
    const cases: [string, string][] = [
      ["POST", "/unlock"],
      ["GET", "/sync"],
      ["POST", "/environments/production/sync"],
      ["DELETE", "/links/0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55/copy"],
    ];
    for (const [verb, action] of cases) {
      const { status, headers, body } = await server.admin.rest(verb, `/api/v1/secrets/${id}${action}`);

      expect(status, `${verb} ${action}`).to.equal(404);
      expect(body.error).to.have.all.keys("code", "message", "details", "request_id");
      expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
      expect(headers.get("allow")).to.equal(null);
    }
  });

  it("answer 405 with Allow when only the method is unknown", async () => {
    const { id } = await server.secret();
    const cases: [string, string, string][] = [
      ["PATCH", `/${id}`, "GET, PUT, DELETE, HEAD"],
      ["DELETE", "", "GET, POST, HEAD"],
      ["GET", `/${id}/archive`, "POST"],
      ["POST", `/${id}/versions`, "GET, HEAD"],
    ];
    for (const [verb, path, allow] of cases) {
      const { status, headers } = await server.admin.rest(verb, `/api/v1/secrets${path}`);

      expect(status, `${verb} ${path}`).to.equal(405);
      expect(headers.get("allow")).to.equal(allow);
    }
  });
});
