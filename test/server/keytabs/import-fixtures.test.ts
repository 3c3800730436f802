import { expect } from "chai";
import { importKeytab } from "../../harness/keytabs.ts";
import { disguises } from "../../harness/leaks.ts";
import { useServer } from "../../harness/server.ts";
import { damaged, readable, readableFile } from "../../standards/keytab-files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const post = (file: Buffer) =>
  server.admin.rest("POST", "/api/v1/keytabs", { name: "fixture", keytab_data: file.toString("base64") });

describe("A file of another program", () => {
  for (const { name, bytes, description } of readable) {
    it(`is imported as what it is: ${name}`, async () => {
      const { status, body } = await post(bytes);

      expect(status, JSON.stringify(body)).to.equal(201);
      const { principal, realm, kvno, encryption_types, entry_count } = body;
      expect(description.summary).to.deep.include({ principal, realm, kvno, encryption_types, entry_count });
      expect(body.keytab_hash).to.equal(description.sha256);
      const { body: read } = await server.admin.rest("GET", `/api/v1/keytabs/${body.id}`);
      expect(read).to.deep.equal(body);
    });
  }
});

describe("A damaged file", () => {
  let at = "";

  before(async () => {
    at = `/api/v1/keytabs/${(await importKeytab(server.admin)).id}`;
  });

  for (const { name, bytes, description } of damaged) {
    it(`is refused, or else imported where readers may differ: ${name}`, async () => {
      const { status, body } = await post(bytes);

      if (description.recommended === "either" && status === 201) return;
      expect(status, JSON.stringify(body)).to.equal(400);
      expect(body.error.code).to.equal("VALIDATION_ERROR");
      expect(body.error.details.map((each: { field: string }) => each.field)).to.deep.equal(["keytab_data"]);
    });

    it(`replaces nothing unless it can be imported: ${name}`, async () => {
      const { body: before } = await server.admin.rest("GET", at);

      const { status, body } = await server.admin.rest("PUT", at, {
        keytab_data: bytes.toString("base64"),
        notes: "n",
      });

      if (description.recommended === "either" && (status === 200 || status === 409)) return;
      expect(status, JSON.stringify(body)).to.equal(400);
      expect(body.error.details.map((each: { field: string }) => each.field)).to.deep.equal(["keytab_data"]);
      expect((await server.admin.rest("GET", at)).body).to.deep.equal(before);
    });
  }

  it("is told where the damage is, and nothing of what is there", async () => {
    const { bytes, description } = readableFile("mit-user-aes256");

    const { body } = await post(bytes.subarray(0, -1));

    const key_hex = description.entries[0]?.key_hex ?? "";
    expect(body.error.details[0].message).to.match(/^byte \d+: /);
    for (const disguise of disguises(Buffer.from(key_hex, "hex"))) {
      expect(JSON.stringify(body)).not.to.include(disguise);
      expect(server.log).not.to.include(disguise);
    }
  });
});
