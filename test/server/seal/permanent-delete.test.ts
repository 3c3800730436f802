import type { KeyObject } from "node:crypto";
import { expect } from "chai";
import { readConfig } from "../../../src/server/config.ts";
import { SealBroken } from "../../../src/server/seal/cipher.ts";
import { readMasterKey } from "../../../src/server/seal/master-key.ts";
import { asKey, type Place } from "../../../src/server/seal/seal.ts";
import { organizationKeys, serviceKeys } from "../../../src/server/seal/wrapped-keys.ts";
import { useServer } from "../../harness/server.ts";

describe("A permanently deleted secret", () => {
  const server = useServer();

  it("is opened by no key that is left, for one who has the master key and kept the ciphertext", async () => {
    const { id } = await server.secret({ value: "deleted for ever" });
    await server.secret({ value: "another" });
    await server.otherOrganization();
    const [saved] = await server.sql("select organization_id, sealed from secret_version where secret_id = $1", [id]);
    const place: Place = { organizationId: saved.organization_id, kind: "secret.value", recordId: id, version: 1 };

    const before = openedBy(await everyKey(), place, saved.sealed);
    await server.admin.rest("DELETE", `/api/v1/secrets/${id}/permanent`);
    const keysLeft = await everyKey();

    expect(before).to.deep.equal(["deleted for ever"]);
    expect(openedBy(keysLeft, place, saved.sealed)).to.deep.equal([]);
    expect(keysLeft).to.have.length.above(4);
  });

  /** The master key, and whatever it opens in the database: keys of the installation, of organizations, of records. */
  async function everyKey(): Promise<KeyObject[]> {
    const { seal, db } = server.server.core;
    const environment = server.environment();
    const master = readMasterKey(readConfig(environment), false);
    const keys: Buffer[] = [Buffer.from(environment["SERVICE_MASTER_KEY"] ?? "", "base64")];
    for (const { name, wrapped } of await server.sql("select name, wrapped from service_key")) {
      keys.push(await master.unwrap(serviceKeys.place(name), wrapped));
    }
    const organizations = await server.sql("select organization_id as id, wrapped from organization_key");
    for (const { id, wrapped } of organizations) keys.push(await master.unwrap(organizationKeys.place(id), wrapped));
    const records = await server.sql("select record_id as id, organization_id, wrapped from data_key");
    const ofRecords = records.map((row) => seal.dataKey(db, row.organization_id, row.id, row.wrapped));
    // The one that signs tokens is not a key for a cipher.
    return [...keys.filter(({ length }) => length === 32).map(asKey), ...(await Promise.all(ofRecords))];
  }

  function openedBy(keys: readonly KeyObject[], place: Place, sealed: Buffer): string[] {
    return keys.flatMap((key) => {
      try {
        return [server.server.core.seal.open(key, place, sealed).toString()];
      } catch (error) {
        expect(error).to.be.instanceOf(SealBroken);
        return [];
      }
    });
  }
});
