import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const path = "/api/v1/keytabs";

describe("GetKeytab", () => {
  it("answers the record with its version as ETag, and never the file", async () => {
    const keytab = await importKeytab(server.admin);

    const { status, headers, body } = await server.admin.rest("GET", `${path}/${keytab.id}`);

    expect(status).to.equal(200);
    expect(headers.get("etag")).to.equal('"1"');
    expect(body).to.deep.equal(keytab);
    expect(body).not.to.have.any.keys("keytab_data", "data", "sealed");
  });

  it("finds a keytab by its id with and without kt_, in any case", async () => {
    const { id } = await importKeytab(server.admin);
    const uuid = id.replace("kt_", "");

    for (const form of [id, uuid, uuid.toUpperCase(), `kt_${uuid.toUpperCase()}`]) {
      const { status, body } = await server.admin.rest("GET", `${path}/${form}`);

      expect(status, form).to.equal(200);
      expect(body.id, form).to.equal(id);
    }
  });

  it("is 404 for what is not there, is no id, or is another organization's, on every path", async () => {
    const other = await server.otherOrganization();
    const theirs = await importKeytab(other.admin);
    const { id } = await importKeytab(server.admin);
    const ids = [
      "kt_00000000-0000-7000-8000-000000000000",
      "00000000-0000-7000-8000-000000000000",
      "kt_",
      "1",
      `kt_kt_${id}`,
      `${id}0`,
      `kt-${id.slice(3)}`,
      id.replaceAll("-", ""),
      "%00",
      theirs.id,
    ];
    const requests: [string, string, unknown?][] = [
      ["GET", ""],
      ["PUT", "", { notes: "n" }],
      ["DELETE", ""],
      ["GET", "/download"],
      ["GET", "/history"],
      ["POST", "/check-compliance", {}],
    ];
    for (const wrong of ids) {
      for (const [verb, action, request] of requests) {
        const { status, body } = await server.admin.rest(verb, `${path}/${wrong}${action}`, request);

        expect(status, `${verb} ${wrong}${action}`).to.equal(404);
        expect(body.error.code).to.equal("RESOURCE_NOT_FOUND");
      }
    }
    expect((await other.admin.rest("GET", `${path}/${theirs.id}`)).body).to.deep.equal(theirs);
  });

  it("answers over gRPC what it answers over REST", async () => {
    const { id } = await importKeytab(server.admin, newKeytab(), { notes: "n", project_id: server.projectId });
    const client = server.admin.grpc(KeytabService);

    const keytab = await client.getKeytab({ id }, server.admin.metadata());
    client.close();

    const { body } = await server.admin.rest("GET", `${path}/${id}`);
    expect(keytab).to.include({ id, notes: "n", projectId: body.project_id, keytabHash: body.keytab_hash });
  });
});
