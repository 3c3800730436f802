import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Templates } from "./templates.ts";

const server = useServer();
const templates = new Templates(server);

describe("The default of the rotation templates", () => {
  it("is the one that was marked last, whether when it was made or later", async () => {
    const { admin } = await server.otherOrganization();
    const first = await templates.create({ is_default: true }, admin);
    const second = await templates.create({ is_default: true }, admin);
    const afterCreate = await templates.defaults(admin);

    const { body } = await templates.put(first.id, { is_default: true }, admin);

    expect(afterCreate).to.deep.equal([second.id]);
    expect(body.is_default).to.equal(true);
    expect(await templates.defaults(admin)).to.deep.equal([first.id]);
    expect((await templates.get(second.id, admin)).updated_at > second.updated_at).to.equal(true);
  });

  it("is none after false on it, and stays after false on another", async () => {
    const { admin } = await server.otherOrganization();
    const marked = await templates.create({ is_default: true }, admin);
    const other = await templates.create({}, admin);

    await templates.put(other.id, { is_default: false }, admin);
    const still = await templates.defaults(admin);
    await templates.put(marked.id, { is_default: false }, admin);

    expect(still).to.deep.equal([marked.id]);
    expect(await templates.defaults(admin)).to.deep.equal([]);
  });

  it("is none after it was deleted", async () => {
    const { admin } = await server.otherOrganization();
    const marked = await templates.create({ is_default: true }, admin);
    await templates.create({}, admin);

    await templates.delete(marked.id, admin);

    expect(await templates.defaults(admin)).to.deep.equal([]);
  });

  it("is not changed by what is refused", async () => {
    const { admin } = await server.otherOrganization();
    const marked = await templates.create({ is_default: true }, admin);
    const other = await templates.create({}, admin);

    const taken = await templates.post({ name: marked.name, is_default: true }, admin);
    const unknown = await templates.post({ project_id: randomUUID(), is_default: true }, admin);
    const renamed = await templates.put(other.id, { name: marked.name, is_default: true }, admin);

    expect([taken.status, unknown.status, renamed.status]).to.deep.equal([409, 404, 409]);
    expect(await templates.defaults(admin)).to.deep.equal([marked.id]);
  });

  it("is each organization's own", async () => {
    const [one, other] = [await server.otherOrganization(), await server.otherOrganization()];
    const first = await templates.create({ is_default: true }, one.admin);
    const second = await templates.create({ is_default: true }, other.admin);

    expect(await templates.defaults(one.admin)).to.deep.equal([first.id]);
    expect(await templates.defaults(other.admin)).to.deep.equal([second.id]);
  });

  it("is one, however many are marked at the same time, and nobody is refused", async () => {
    const { admin } = await server.otherOrganization();
    const ids: string[] = [];
    for (let n = 0; n < 8; n += 1) ids.push((await templates.create({}, admin)).id);

    for (let round = 0; round < 5; round += 1) {
      const changed = await Promise.all([
        ...ids.map((id) => templates.put(id, { is_default: true }, admin)),
        ...ids.map((id) => templates.put(id, { description: randomUUID() }, admin)),
        ...ids.map((id) => templates.put(id, { is_default: false }, admin)),
      ]);
      const marked = await Promise.all([
        ...ids.map((id) => templates.put(id, { is_default: true }, admin)),
        ...Array.from({ length: 4 }, () => templates.post({ is_default: true }, admin)),
      ]);

      expect([...changed, ...marked].filter(({ status }) => status > 201)).to.deep.equal([]);
      expect(await templates.defaults(admin)).to.have.length(1);
    }
  });

  it("takes rotation:write at the organization to be marked, and in its project to be unmarked or deleted", async () => {
    const project_id = await templates.newProject();
    const writer = await templates.holder("rotation:write", project_id);
    const marked = await templates.create({ project_id, is_default: true });
    const other = await templates.create({ project_id });

    const made = await templates.post({ project_id, is_default: true }, writer);
    const changed = await templates.put(other.id, { is_default: true }, writer);
    const kept = await templates.defaults();
    const same = await templates.put(marked.id, { is_default: true, description: "d" }, writer);
    const unmarked = await templates.put(marked.id, { is_default: false }, writer);

    expect([made.status, changed.status]).to.deep.equal([403, 403]);
    expect(kept).to.deep.equal([marked.id]);
    expect([same.status, unmarked.status]).to.deep.equal([200, 200]);
    expect(await templates.defaults()).to.deep.equal([]);
  });
});
