import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Authorities } from "./authorities.ts";

const server = useServer();
const authorities = new Authorities(server);

const updatesOf = (id: string) =>
  server.sql(
    "select outcome, resource_name, details::jsonb from audit_event where action = 'ca.update' and resource_id = $1 order by sequence",
    [id],
  );

describe("UpdateCertificateAuthority", () => {
  it("renames, and switches off and on, and leaves alone what is not mentioned", async () => {
    const root = await authorities.root();
    const name = `renamed-${randomUUID()}`;

    const { status, body: renamed } = await authorities.put(root.id, { name });
    const { body: disabled } = await authorities.put(root.id, { status: "disabled" });
    const { body: active } = await authorities.put(root.id, { status: "active", name: null });

    expect(status).to.equal(200);
    const { updated_at: at } = renamed;
    expect(renamed).to.deep.equal({ ...root, name, updated_at: at });
    expect(Date.parse(at)).to.be.greaterThan(Date.parse(root.updated_at));
    expect([disabled.name, disabled.status]).to.deep.equal([name, "disabled"]);
    expect([active.name, active.status]).to.deep.equal([name, "active"]);
    expect(await authorities.get(root.id)).to.deep.equal(active);
    expect(await updatesOf(root.id)).to.deep.equal([
      { outcome: "success", resource_name: name, details: { name_before: root.name } },
      { outcome: "success", resource_name: name, details: { status: "disabled" } },
      { outcome: "success", resource_name: name, details: { status: "active" } },
    ]);
  });

  it("changes nothing, not even updated_at, when nothing is different", async () => {
    const root = await authorities.root();

    const empty = await authorities.put(root.id, {});
    const same = await authorities.put(root.id, { name: root.name, status: "active" });

    expect([empty.body, same.body]).to.deep.equal([root, root]);
  });

  it("switches off one authority, and none below it", async () => {
    const root = await authorities.root();
    const below = await authorities.below(root);

    await authorities.put(root.id, { status: "disabled" });

    expect((await authorities.get(below.id)).status).to.equal("active");
    expect((await authorities.statusOf(below)).revoked_at).to.equal(null);
  });

  it("renames one that has expired, disabled or not, and does no more to it", async () => {
    const root = await authorities.root();
    await authorities.put(root.id, { status: "disabled" });
    await authorities.expire(root.id);
    const name = `renamed-${randomUUID()}`;

    const renamed = await authorities.put(root.id, { name });
    const activated = await authorities.put(root.id, { status: "active" });

    expect([renamed.status, renamed.body.name, renamed.body.status]).to.deep.equal([200, name, "expired"]);
    expect([activated.status, activated.body.error.message]).to.deep.equal([
      409,
      "the certificate authority is expired",
    ]);
    const [row] = await server.sql("select status from certificate_authority where id = $1", [root.id]);
    expect(row.status).to.equal("disabled");
  });

  it("refuses to touch one that is revoked", async () => {
    const root = await authorities.root();
    const { body: revoked } = await authorities.revoke(root.id);

    for (const change of [{ status: "active" }, { status: "disabled" }, { name: "another" }]) {
      const { status, body } = await authorities.put(root.id, change);
      expect([status, body.error.code, body.error.message]).to.deep.equal([
        409,
        "RESOURCE_CONFLICT",
        "the certificate authority is revoked",
      ]);
    }
    expect(await authorities.get(root.id)).to.deep.equal(revoked);
  });

  it("refuses a name that is taken, and bad values, and names the field", async () => {
    const { name } = await authorities.root();
    const root = await authorities.root();

    const taken = await authorities.put(root.id, { name });
    expect([taken.status, taken.body.error.details[0].field]).to.deep.equal([409, "name"]);
    for (const [field, value] of [
      ["name", ""],
      ["name", "ü".repeat(256)],
      ["status", "revoked"],
      ["status", "expired"],
    ] as const) {
      const { status, body } = await authorities.put(root.id, { [field]: value });
      expect([status, body.error.details[0].field], value).to.deep.equal([400, field]);
    }
    expect(await authorities.get(root.id)).to.deep.equal(root);
  });
});
