import { createSecretKey, randomBytes } from "node:crypto";
import { expect } from "chai";
import { ConfigError } from "../../../src/server/config.ts";
import { SealBroken } from "../../../src/server/seal/cipher.ts";
import { LocalKey } from "../../../src/server/seal/key-wrapping.ts";
import { MasterKey } from "../../../src/server/seal/master-key.ts";
import { type Place, Seal } from "../../../src/server/seal/seal.ts";
import { useServer } from "../../harness/server.ts";

const newMasterKey = () => new MasterKey(new LocalKey("SERVICE_MASTER_KEY", createSecretKey(randomBytes(32))));

describe("The seal", () => {
  const server = useServer();
  const organization = async () => (await server.sql("select id from organization where instance"))[0].id as string;

  it("opens bytes only in the organization, record, version and kind that they were sealed for", async () => {
    const { seal, db } = server.server.core;
    const at: Place = { organizationId: await organization(), kind: "secret.value", recordId: "r", version: 1 };
    const { key } = await seal.createDataKey(db, at.organizationId, at.recordId);

    const sealed = seal.seal(key, at, Buffer.from("v"));

    expect(seal.open(key, at, sealed).toString()).to.equal("v");
    for (const moved of [
      { ...at, organizationId: "o" },
      { ...at, kind: "keytab" },
      { ...at, recordId: "r2" },
      { ...at, version: 2 },
    ]) {
      expect(() => seal.open(key, moved, sealed)).to.throw(SealBroken);
    }
  });

  it("opens a record's key only for that record and that organization", async () => {
    const { seal, db } = server.server.core;
    const organizationId = await organization();
    const other = await server.otherOrganization();
    const { key, wrapped } = await seal.createDataKey(db, organizationId, "r");
    const attempt = (toOrganization: string, recordId: string) =>
      seal.dataKey(db, toOrganization, recordId, wrapped).then(
        (opened) => opened.equals(key),
        (error: unknown) => error instanceof SealBroken,
      );

    expect((await seal.dataKey(db, organizationId, "r", wrapped)).equals(key)).to.equal(true);
    expect(await attempt(organizationId, "r2")).to.equal(true);
    expect(await attempt(other.organizationId, "r")).to.equal(true);
  });

  it("refuses stored values that were moved to another secret or version, or changed: 500, and no value", async () => {
    const [mine, theirs] = [await server.secret({ value: "value-m" }), await server.secret({ value: "value-t" })];
    await server.admin.rest("PUT", `/api/v1/secrets/${mine.id}`, { value: "value-n" });
    const stored = await server.sql("select sealed from secret_version where secret_id = $1 and version = 1", [
      mine.id,
    ]);
    const read = async (id: string) => {
      const { status, body } = await server.admin.rest("GET", `/api/v1/secrets/${id}`);
      return { status, code: body.error?.code, value: body.value };
    };
    const broken = { status: 500, code: "INTERNAL_ERROR", value: undefined };

    await server.sql("update secret_version set sealed = $2 where secret_id = $1", [theirs.id, stored[0].sealed]);
    await server.sql("update secret_version set sealed = $2 where secret_id = $1 and version = 2", [
      mine.id,
      stored[0].sealed,
    ]);

    expect(await read(theirs.id)).to.deep.equal(broken);
    expect(await read(mine.id)).to.deep.equal(broken);
    await server.sql(
      "update data_key set wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1) where record_id = $1",
      [mine.id],
    );
    expect(await read(mine.id)).to.deep.equal(broken);
    expect(server.log).not.to.match(/value-[mnt]/);
  });

  it("stores no value and no key in clear", async () => {
    const value = `clear-${randomBytes(12).toString("hex")}`;
    const { id } = await server.secret({ value, metadata: {} });

    const rows = await server.sql(
      `select (select string_agg(encode(sealed, 'escape'), '') from secret_version where secret_id = $1) as sealed,
        (select string_agg(v::text, '') from secret v where id = $1) as secret,
        (select string_agg(a::text, '') from audit_event a) as audit`,
      [id],
    );

    expect(JSON.stringify(rows)).not.to.include(value);
  });

  it("makes a key of the installation once, the same for all replicas that ask at once", async () => {
    const { db } = server.server.core;
    const master = newMasterKey();
    const replicas = Array.from({ length: 6 }, () => new Seal(db, master));

    const keys = await Promise.all(replicas.map((replica) => replica.serviceKey("of-a-test")));

    expect(new Set(keys.map((key) => key.toString("hex"))).size).to.equal(1);
    expect(keys[0]).to.have.length(32);
  });

  it("refuses a master key that is not the database's", async () => {
    const stranger = new Seal(server.server.core.db, newMasterKey());

    const refused = await stranger.serviceKey("client-secret-pepper").catch((error: unknown) => error);

    expect(refused).to.be.instanceOf(ConfigError);
    expect((refused as Error).message).to.equal("SERVICE_MASTER_KEY is not the key that this database was sealed with");
  });
});
