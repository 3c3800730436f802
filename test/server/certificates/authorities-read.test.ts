import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Client } from "../../harness/client.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord, authoritiesPath } from "./authorities.ts";

const server = useServer();
const authorities = new Authorities(server);

const names = async (by: Client, query: string) => {
  const { body } = await by.rest("GET", authoritiesPath(undefined, query));
  return body.data.map(({ name }: AuthorityRecord) => name);
};

describe("ListCertificateAuthorities", () => {
  it("gives {data, pagination}, newest first, with the records that reading them one by one gives", async () => {
    const { admin } = await server.otherOrganization();
    const made = [];
    for (const name of ["a", "b", "c"]) made.push(await authorities.root({ name }, admin));

    const { status, headers, body } = await admin.rest("GET", authoritiesPath(undefined, "?per_page=2"));
    const { body: second } = await admin.rest("GET", authoritiesPath(undefined, "?page=2&limit=2"));

    expect(status).to.equal(200);
    expect([...body.data, ...second.data]).to.deep.equal(made.toReversed());
    expect(body.pagination).to.deep.equal({ page: 1, per_page: 2, total: 3 });
    expect(headers.get("x-total-count")).to.equal("3");
  });

  it("selects by status as it is now, type, parent, and part of the name whatever its case", async () => {
    const { admin } = await server.otherOrganization();
    const root = await authorities.root({ name: "Root 100%" }, admin);
    await authorities.below(root, { name: "Below" }, admin);
    const disabled = await authorities.root({ name: "Disabled" }, admin);
    await authorities.put(disabled.id, { status: "disabled" }, admin);
    const expired = await authorities.root({ name: "Expired" }, admin);
    await authorities.put(expired.id, { status: "disabled" }, admin);
    await authorities.expire(expired.id);
    const revoked = await authorities.root({ name: "Revoked" }, admin);
    await authorities.revoke(revoked.id, {}, admin);
    await authorities.expire(revoked.id);

    expect(await names(admin, "?status=active")).to.deep.equal(["Below", "Root 100%"]);
    expect(await names(admin, "?status=disabled")).to.deep.equal(["Disabled"]);
    expect(await names(admin, "?status=expired")).to.deep.equal(["Expired"]);
    expect(await names(admin, "?status=revoked")).to.deep.equal(["Revoked"]);
    expect(await names(admin, "?type=intermediate")).to.deep.equal(["Below"]);
    expect(await names(admin, `?parent_id=${root.id}`)).to.deep.equal(["Below"]);
    expect(await names(admin, `?parent_id=${disabled.id}`)).to.deep.equal([]);
    expect(await names(admin, "?search=ot%20100%25")).to.deep.equal(["Root 100%"]);
  });

  it("refuses a parent that is not there, and values that no authority has", async () => {
    const { admin } = await server.otherOrganization();
    const theirs = await authorities.root({}, admin);
    const answerTo = async (query: string) => {
      const { status, body } = await server.admin.rest("GET", authoritiesPath(undefined, query));
      return [status, body.error.details[0].field];
    };

    expect(await answerTo(`?parent_id=${randomUUID()}`)).to.deep.equal([404, "parent_id"]);
    expect(await answerTo(`?parent_id=${theirs.id}`)).to.deep.equal([404, "parent_id"]);
    expect(await answerTo("?parent_id=nonsense")).to.deep.equal([400, "parent_id"]);
    expect(await answerTo("?status=gone")).to.deep.equal([400, "status"]);
    expect(await answerTo("?type=leaf")).to.deep.equal([400, "type"]);
    expect(await answerTo("?per_page=101")).to.deep.equal([400, "per_page"]);
  });
});

describe("GetCertificateAuthority", () => {
  it("says that a certificate has expired as soon as its time is over, but not of one that was revoked", async () => {
    const [expired, disabled, revoked] = [
      await authorities.root(),
      await authorities.root(),
      await authorities.root(),
    ] as const;
    await authorities.put(disabled.id, { status: "disabled" });
    await authorities.revoke(revoked.id);

    for (const { id } of [expired, disabled, revoked]) await authorities.expire(id);

    const statusOf = async ({ id }: AuthorityRecord) => (await authorities.get(id)).status;
    expect([await statusOf(expired), await statusOf(disabled), await statusOf(revoked)]).to.deep.equal([
      "expired",
      "expired",
      "revoked",
    ]);
  });

  it("answers 404 for an id that is none, that is nobody's, or another organization's", async () => {
    const { admin } = await server.otherOrganization();
    const theirs = await authorities.root({}, admin);

    for (const id of ["nonsense", randomUUID(), theirs.id]) {
      const { status, body } = await server.admin.rest("GET", authoritiesPath(id));
      expect([status, body.error.code], id).to.deep.equal([404, "RESOURCE_NOT_FOUND"]);
    }
  });
});

describe("Certificate authorities", () => {
  it("are read by whoever may read certificates, in any project, and changed by administrators only", async () => {
    const root = await authorities.root();
    const inProject = (role: string) => ({ projectRoles: [{ project_id: server.projectId, role }] });
    const callers: [name: string, roles: Parameters<typeof server.as>[1], reads: number][] = [
      ["viewer", ["viewer"], 200],
      ["viewer of a project", inProject("viewer"), 200],
      ["auditor", ["auditor"], 200],
      ["editor", ["editor"], 200],
      ["administrator of a project", inProject("admin"), 200],
      ["nobody", [], 403],
    ];
    for (const [name, roles, reads] of callers) {
      const caller = await server.as(name, roles);

      const read = await caller.rest("GET", authoritiesPath(root.id));
      const listed = await caller.rest("GET", authoritiesPath());
      const written = [
        await authorities.post({}, caller),
        await authorities.put(root.id, { name: "x" }, caller),
        await authorities.revoke(root.id, {}, caller),
      ];

      expect([read.status, listed.status], name).to.deep.equal([reads, reads]);
      expect(
        written.map(({ status }) => status),
        name,
      ).to.deep.equal([403, 403, 403]);
    }
    expect(await authorities.get(root.id)).to.deep.equal(root);
  });

  it("are not there for another organization, whatever is asked", async () => {
    const root = await authorities.root();
    const { admin } = await server.otherOrganization();

    const answers = [
      await admin.rest("GET", authoritiesPath(root.id)),
      await authorities.put(root.id, { name: "theirs" }, admin),
      await authorities.revoke(root.id, {}, admin),
      await admin.rest("GET", `${authoritiesPath(root.id)}/crl`),
    ];

    expect(answers.map(({ status }) => status)).to.deep.equal([404, 404, 404, 404]);
    expect(await names(admin, "")).to.deep.equal([]);
    expect(await authorities.get(root.id)).to.deep.equal(root);
  });

  it("are not recorded for being read, but refusals are", async () => {
    const root = await authorities.root();
    const nobody = await server.as("curious", []);
    const count = async () => (await server.auditTrail()).length;
    const before = await count();

    await authorities.get(root.id);
    await names(server.admin, "");
    expect(await count()).to.equal(before);
    await nobody.rest("GET", authoritiesPath(root.id));
    await nobody.rest("GET", authoritiesPath());

    expect((await server.auditTrail()).filter((line) => line.startsWith("curious ca."))).to.deep.equal([
      "curious ca.read denied",
      "curious ca.list denied",
    ]);
  });
});
