import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

describe("ListKeytabHistory", () => {
  it("answers a bare list of all versions, newest first, each with what its file held", async () => {
    const editor = await server.as("editor", ["editor"]);
    const first = await importKeytab(server.admin, newKeytab({ kvno: 1, enctypes: [18, 23] }));
    const at = `/api/v1/keytabs/${first.id}`;
    const replace = (kvno: number, change_reason?: string) =>
      editor.rest("PUT", at, { keytab_data: newKeytab({ kvno, enctypes: [20] }).toString("base64"), change_reason });
    const { body: second } = await replace(2, "rotated");
    const { body: third } = await replace(2 ** 32 - 1);
    await editor.rest("PUT", at, { notes: "makes no version" });

    const { status, body } = await server.admin.rest("GET", `${at}/history`);

    expect(status).to.equal(200);
    const kept = [third, second, first].map(({ version, encryption_types, kvno, keytab_hash, updated_at }) => ({
      keytab_id: first.id,
      version,
      encryption_types,
      kvno,
      keytab_hash,
      created_at: updated_at,
    }));
    const said = [
      { changed_by: editor.id, change_reason: "" },
      { changed_by: editor.id, change_reason: "rotated" },
      { changed_by: server.admin.id, change_reason: "imported" },
    ];
    const ids = body.map(({ id }: { id: string }) => id);
    expect(body).to.deep.equal(kept.map((version, index) => ({ id: ids[index], ...version, ...said[index] })));
    expect(new Set(ids).size).to.equal(3);
    for (const id of ids) expect(id).to.match(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });

  it("answers over gRPC the same versions", async () => {
    const { id } = await importKeytab(server.admin);
    const client = server.admin.grpc(KeytabService);

    const { data } = await client.listKeytabHistory({ id }, server.admin.metadata());
    client.close();

    expect(data.map(({ keytabId, version, changeReason }) => ({ keytabId, version, changeReason }))).to.deep.equal([
      { keytabId: id, version: 1, changeReason: "imported" },
    ]);
  });
});
