import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { foundKeytab, Host } from "../../harness/host.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";
import { recordOf } from "../discovery/files.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

let admin: Client;
let organizationId: string;
beforeEach(async () => {
  ({ admin, organizationId } = await server.otherOrganization());
});

const [aes256, rc4, des3, desMd5, unknown] = [18, 23, 16, 3, 999];
const path = "/api/v1/keytabs";
const base64 = (...enctypes: number[]) => newKeytab({ enctypes }).toString("base64");

const enforce = () =>
  admin.rest("PUT", `${path}/cipher-policy`, {
    allowed_ciphers: ["aes256-cts", "rc4-hmac"],
    deprecated_ciphers: ["rc4-hmac"],
    enforcement_mode: "enforce",
  });

const refusal = (...ciphers: string[]) =>
  ciphers.map((cipher) => ({ field: "keytab_data", message: `${cipher}: not in allowed_ciphers` }));

/** How many rows an organization has of what an import makes. */
async function countRows() {
  const [counts] = await server.sql(
    `select (select count(*)::int from keytab where organization_id = $1) as keytabs,
       (select count(*)::int from keytab_version where organization_id = $1) as versions,
       (select count(*)::int from data_key where organization_id = $1) as keys`,
    [organizationId],
  );
  return counts;
}

describe("A policy that is enforced", () => {
  it("refuses an import with one detail for each type that is not allowed, and nothing is stored", async () => {
    await enforce();
    const before = await countRows();

    const { status, body } = await admin.rest("POST", path, {
      name: "old",
      keytab_data: base64(rc4, desMd5, aes256, des3, unknown),
    });

    expect(status).to.equal(400);
    expect(body.error.code).to.equal("VALIDATION_ERROR");
    expect(body.error.details).to.deep.equal(refusal("des-cbc-md5", "des3-cbc-sha1", "etype-999"));
    expect(await countRows()).to.deep.equal(before);
  });

  it("takes an import that it only warns of", async () => {
    await enforce();

    const { cipher_compliance } = await importKeytab(admin, newKeytab({ enctypes: [aes256, rc4] }));

    expect(cipher_compliance).to.equal("warning");
  });

  it("refuses a replacement, and the file stays as it was", async () => {
    await enforce();
    const file = newKeytab({ enctypes: [aes256] });
    const keytab = await importKeytab(admin, file);
    const replacement = { name: "renamed", keytab_data: base64(aes256, desMd5) };

    const { status, body } = await admin.rest("PUT", `${path}/${keytab.id}`, replacement);

    expect(status).to.equal(400);
    expect(body.error.details).to.deep.equal(refusal("des-cbc-md5"));
    expect((await admin.rest("GET", `${path}/${keytab.id}`)).body).to.deep.equal(keytab);
    expect((await admin.rest("GET", `${path}/${keytab.id}/history`)).body).to.have.length(1);
  });

  it("only marks keytabs that are stored already, which stay of use", async () => {
    const { id } = await importKeytab(admin, newKeytab({ enctypes: [des3] }), { name: "old" });
    await server.sql("update keytab set cipher_compliance = 'compliant' where organization_id = $1", [organizationId]);
    await enforce();

    const { body: refreshed } = await admin.rest("POST", `${path}/refresh-compliance`);

    expect(refreshed).to.deep.equal({ updated: 1, evaluated: 1 });
    const { body: keytab } = await admin.rest("GET", `${path}/${id}`);
    expect(keytab).to.include({ cipher_compliance: "non_compliant", status: "active" });
    expect((await admin.rest("PUT", `${path}/${id}`, { name: "renamed" })).body.name).to.equal("renamed");
    expect((await admin.rest("GET", `${path}/${id}/download`)).status).to.equal(200);
  });

  it("refuses the import of a file on a host, and the record of the file stays as it was", async () => {
    await enforce();
    const host = await Host.enroll(server, { by: admin });
    const file = newKeytab({ enctypes: [desMd5] });
    await host.report([foundKeytab("/etc/krb5.keytab", file)]);
    const stop = host.answerUploads(new Map([["/etc/krb5.keytab", file]]));
    try {
      const record = await recordOf(admin, host);

      const { status, body } = await admin.rest("POST", `${path}/discovered/${record.id}/import`, {});

      expect(status).to.equal(400);
      expect(body.error.details).to.deep.equal(refusal("des-cbc-md5"));
      expect(await recordOf(admin, host)).to.deep.equal(record);
      expect((await countRows()).keytabs).to.equal(0);
    } finally {
      stop();
      host.close();
    }
  });

  it("is one of its own organization", async () => {
    await enforce();
    const other = await server.otherOrganization();

    const { cipher_compliance } = await importKeytab(other.admin, newKeytab({ enctypes: [desMd5] }));

    expect(cipher_compliance).to.equal("non_compliant");
  });
});

describe("A policy that warns", () => {
  it("takes what it does not allow, and marks it", async () => {
    const { cipher_compliance } = await importKeytab(admin, newKeytab({ enctypes: [desMd5] }));

    expect(cipher_compliance).to.equal("non_compliant");
  });
});
