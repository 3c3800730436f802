import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import type { Answer } from "../../harness/client.ts";
import { importKeytab, keysOf, newKeytab } from "../../harness/keytabs.ts";
import { disguises, dump } from "../../harness/leaks.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true", LOG_LEVEL: "trace" });

const path = "/api/v1/keytabs";
const base64 = (file: Buffer) => file.toString("base64");

describe("The keys in a keytab", () => {
  const keys: Record<string, Buffer> = {};
  const answers: string[] = [];

  function fileOf(name: string): Buffer {
    const file = newKeytab({ enctypes: [18, 17] });
    for (const [index, key] of keysOf(file).entries()) keys[`${name} ${index}`] = key;
    return file;
  }

  before(async () => {
    const { admin } = server;
    const call = async (...request: Parameters<typeof admin.rest>): Promise<Answer> => {
      const answer = await admin.rest(...request);
      answers.push(JSON.stringify([...answer.headers]), JSON.stringify(answer.body));
      return answer;
    };
    const imported = fileOf("imported");
    const { body } = await call(
      "POST",
      path,
      { name: "k", keytab_data: base64(imported) },
      { "idempotency-key": "once" },
    );
    await call("POST", path, { name: "k", keytab_data: base64(imported) }, { "idempotency-key": "once" });
    await call("POST", path, { name: "again", keytab_data: base64(imported) });
    const at = `${path}/${body.id}`;
    await call("PUT", at, { keytab_data: base64(fileOf("replaced")), change_reason: "a reason" });
    await call("PUT", at, { keytab_data: base64(fileOf("unexpected")), expected_version: 9 });
    await call("PUT", at, { keytab_data: base64(fileOf("cut")).slice(0, -8) });
    await call("PUT", at, { keytab_data: [base64(fileOf("mistyped"))] });
    await call("PUT", at, `{"keytab_data": "${base64(fileOf("no json"))}"`, { "content-type": "application/json" });
    await call("POST", path, { name: "n".repeat(256), keytab_data: base64(fileOf("refused")) });
    await call("GET", at);
    await call("GET", path);
    await call("GET", `${at}/history`);
    await call("POST", `${at}/check-compliance`, {});
    await admin.rest("GET", `${at}/download`);
    await admin.rest("GET", `${at}/download?version=1`);
    const { id } = await importKeytab(admin, fileOf("deleted"));
    await call("DELETE", `${path}/${id}`);
    const client = admin.grpc(KeytabService);
    await client.importKeytab({ name: "rpc", keytabData: fileOf("rpc") }, admin.metadata());
    const cut = fileOf("cut rpc").subarray(0, -1);
    await client.importKeytab({ name: "rpc", keytabData: cut }, admin.metadata()).catch((error) => {
      answers.push(JSON.stringify(error), String(error));
    });
    client.close();
    const connected = await admin
      .connect(KeytabService)
      .importKeytab({ name: "connect", keytabData: fileOf("connect") });
    answers.push(JSON.stringify(connected, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)));
    const { body: events } = await admin.rest("GET", "/api/v1/audit-logs?action=keytab.*&per_page=100");
    answers.push(JSON.stringify(events));
  });

  function expectNone(text: string): void {
    for (const [name, key] of Object.entries(keys)) {
      for (const disguise of disguises(key)) expect(text.includes(disguise), name).to.equal(false);
    }
  }

  it("are in no answer but a download, and in no audit event", () => {
    expect(answers.join("\n")).to.include("keytab.download").and.to.include("a reason");
    expectNone(answers.join("\n"));
  });

  it("are in no log, at its most talkative", () => {
    expect(server.log).to.include("ImportKeytab").and.to.include("UpdateKeytab");
    expectNone(server.log);
  });

  it("are in no column of any table", async () => {
    const everything = await dump(server);

    expect(everything).to.include("a reason");
    expectNone(everything);
  });

  it("are sealed for their version: no other version, keytab or key opens them", async () => {
    const { id } = await importKeytab(server.admin);
    const { id: other } = await importKeytab(server.admin);
    await server.admin.rest("PUT", `${path}/${id}`, { keytab_data: base64(newKeytab()) });
    const uuid = (kt: string) => kt.replace("kt_", "");
    const download = async (kt: string, version: number) =>
      (await server.admin.rest("GET", `${path}/${kt}/download?version=${version}`)).status;
    const versions = [uuid(id), uuid(other)];

    await server.sql(
      `update keytab_version v set sealed = (select sealed from keytab_version where keytab_id = v.keytab_id and version = 1)
       where keytab_id = $1 and version = 2`,
      [versions[0]],
    );
    await server.sql(
      "update keytab_version set sealed = (select sealed from keytab_version where keytab_id = $1 and version = 1) where keytab_id = $2",
      versions,
    );

    expect(await download(id, 1)).to.equal(200);
    expect(await download(id, 2)).to.equal(500);
    expect(await download(other, 1)).to.equal(500);
  });
});
