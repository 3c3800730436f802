import { expect } from "chai";
import { organizationKeys } from "../../../src/server/seal/wrapped-keys.ts";
import { Client } from "../../harness/client.ts";
import { useKms } from "../../harness/kms.ts";
import { TestServer, urlOf } from "../../harness/server.ts";

describe("A server whose master key is in AWS KMS", () => {
  const kms = useKms();
  let server: TestServer;

  before(async () => {
    const inKms = { MASTER_KEY_KMS_KEY_ID: kms.createKey(), MASTER_KEY_KMS_ENDPOINT: kms.url };
    server = new TestServer({ MASTER_KEY: "", ...inKms });
    await server.start();
  });
  after(() => server.stop());

  /** One more replica, which has no organization's key in its memory yet. */
  const newReplica = async () => urlOf(await server.startReplica());
  const read = async (client: Client, id: string, url = client.url) => {
    const { status, body } = await new Client(url, client.token).rest("GET", `/api/v1/secrets/${id}`);
    return status === 200 ? body.value : `${status} ${body.error.code}`;
  };
  const elsewhere = async () => {
    const { admin, projectId, organizationId } = await server.otherOrganization();
    const { id } = await server.secret({ value: "value-of-others", project_id: projectId }, admin);
    return { admin, organizationId, id };
  };

  it("keeps secrets, and reads them after a restart", async () => {
    const { id } = await server.secret({ value: "value-kept" });

    const restarted = await newReplica();

    expect(await read(server.admin, id)).to.equal("value-kept");
    expect(await read(server.admin, id, restarted)).to.equal("value-kept");
    const forms = await server.sql(
      "select get_byte(wrapped, 0) as form from organization_key union select get_byte(wrapped, 0) from service_key",
    );
    expect(forms).to.deep.equal([{ form: 2 }]);
  });

  it("asks for the key of an organization once, however many calls need it at once", async () => {
    const { admin, organizationId, id } = await elsewhere();
    const replica = await newReplica();
    kms.requests.length = 0;

    const values = await Promise.all(Array.from({ length: 20 }, () => read(admin, id, replica)));

    expect(values).to.deep.equal(values.map(() => "value-of-others"));
    const asked = kms.requests.map(({ operation, input }) => [operation, input.EncryptionContext?.["place"]]);
    expect(asked).to.deep.equal([["Decrypt", organizationKeys.place(organizationId)]]);
  });

  for (const [how, fail, recover] of [
    ["is not there", () => kms.stop(), () => kms.start()],
    ["refuses", () => kms.fail("AccessDeniedException"), () => kms.recover()],
    ["hangs", () => kms.hang(), () => kms.recover()],
  ] as const) {
    it(`goes on with the keys in its memory while KMS ${how}, answers 503 for others, and recovers`, async () => {
      const { id } = await server.secret({ value: "value-in-memory" });
      const { admin: stranger, id: theirs } = await elsewhere();
      const replica = await newReplica();
      await read(server.admin, id, replica);

      await fail();
      const known = await read(server.admin, id, replica);
      const written = await server.secret({ value: "value-new" });
      const unknown = await read(stranger, theirs, replica);
      const made = await server.admin.rest("POST", "/api/v1/organizations", { name: `while it ${how}` });
      await recover();

      expect([known, unknown]).to.deep.equal(["value-in-memory", "503 SERVICE_UNAVAILABLE"]);
      expect(written).to.have.property("id");
      expect(made.status).to.equal(503);
      expect(made.body.error.message).to.equal("the key management service cannot be used");
      expect(await read(stranger, theirs, replica)).to.equal("value-of-others");
      const again = await server.admin.rest("POST", "/api/v1/organizations", { name: `while it ${how}` });
      expect(again.status).to.equal(201);
    });
  }

  it("writes no key and no value to its log, and says there why calls were refused", () => {
    expect(server.log).to.include("SERVICE_MASTER_KEY_KMS_KEY_ID: AWS KMS cannot be used (ECONNREFUSED)");
    expect(server.log).not.to.match(/value-(kept|of-others|in-memory|new)|wJalrXUtnFEMI/);
  });
});
