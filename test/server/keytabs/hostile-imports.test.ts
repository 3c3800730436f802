import { expect } from "chai";
import { KeytabService } from "../../../gen/ts/holdfast/keytabs/v1/keytab_service_pb.ts";
import { importKeytab, newKeytab } from "../../harness/keytabs.ts";
import { useServer } from "../../harness/server.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });

const withPrincipal = (length: number) => {
  const realm = "EXAMPLE.COM";
  return newKeytab({ principal: "ü".repeat(length - realm.length - 1), realm });
};
const post = (file: Buffer) =>
  server.admin.rest("POST", "/api/v1/keytabs", { name: "k", keytab_data: file.toString("base64") });

describe("A keytab with a principal as long as its file", () => {
  it("is refused, since every list would show it", async () => {
    const { status, body } = await post(withPrincipal(8193));

    expect(status).to.equal(400);
    expect(body.error.details).to.deep.equal([
      { field: "keytab_data", message: "the principal of the first entry is longer than 8192 characters" },
    ]);
  });

  it("is taken up to the length that agents report", async () => {
    const { status, body } = await post(withPrincipal(8192));

    expect(status).to.equal(201);
    expect([...body.principal]).to.have.length(8192);
  });

  it("does not replace a file either", async () => {
    const { id } = await importKeytab(server.admin);

    const { status } = await server.admin.rest("PUT", `/api/v1/keytabs/${id}`, {
      keytab_data: withPrincipal(8193).toString("base64"),
    });

    expect(status).to.equal(400);
    expect((await server.admin.rest("GET", `/api/v1/keytabs/${id}`)).body.version).to.equal(1);
  });
});

describe("A keytab that ends with the calendar", () => {
  const end = "9999-12-31T23:59:59.999999999Z";

  it("ends at its last millisecond, and is listed in every protocol", async () => {
    const { id, expires_at } = await importKeytab(server.admin, newKeytab(), { expires_at: end });

    const { data } = await server.admin.connect(KeytabService).listKeytabs({});

    expect(expires_at).to.equal("9999-12-31T23:59:59.999Z");
    expect(data.some((each) => each.id === id)).to.equal(true);
  });

  it("can be given the end that it was answered", async () => {
    const keytab = await importKeytab(server.admin, newKeytab(), { expires_at: end });

    const { status, body } = await server.admin.rest("PUT", `/api/v1/keytabs/${keytab.id}`, {
      expires_at: keytab.expires_at,
    });

    expect(status).to.equal(200);
    expect(body).to.deep.equal(keytab);
  });
});
