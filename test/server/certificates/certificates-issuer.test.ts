import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { Certificates, faultsOf } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

const nobody = "00000000-0000-7000-8000-000000000000";

describe("The authority that is asked for a certificate", () => {
  let root: AuthorityRecord;

  before(async () => {
    root = await authorities.root();
  });

  it("is 404 for an authority or a project that is not there for the caller", async () => {
    const other = await server.otherOrganization();
    const theirs = await authorities.root({}, other.admin);
    const before = await certificates.counts();
    const cases: [object, string][] = [
      [{ ca_id: nobody }, "ca_id"],
      [{ ca_id: theirs.id }, "ca_id"],
      [{ ca_id: root.id, project_id: nobody }, "project_id"],
      [{ ca_id: root.id, project_id: other.projectId }, "project_id"],
    ];
    for (const [fields, field] of cases) {
      const answer = await certificates.post(fields as Record<string, unknown>);

      expect(answer.status, JSON.stringify(fields)).to.equal(404);
      expect(faultsOf(answer)).to.have.keys(field);
    }
    expect(await certificates.counts()).to.deep.equal(before);
  });

  it("is 409 for an authority that is disabled, revoked or expired, and says which", async () => {
    const [disabled, revoked, expired] = [await authorities.root(), await authorities.root(), await authorities.root()];
    await authorities.put(disabled.id, { status: "disabled" });
    await authorities.revoke(revoked.id);
    await authorities.expire(expired.id);
    const before = await certificates.counts();
    for (const [state, { id }] of Object.entries({ disabled, revoked, expired })) {
      const { status, body } = await certificates.post({ ca_id: id });

      expect(status, state).to.equal(409);
      expect(body.error).to.include({ code: "RESOURCE_CONFLICT", message: `the certificate authority is ${state}` });
    }
    expect(await certificates.counts()).to.deep.equal(before);
  });

  it("issues nothing that outlives a revocation of its authority at the same moment", async () => {
    const authority = await authorities.root();
    const issuing = Array.from({ length: 20 }, () => certificates.post({ ca_id: authority.id }));
    const revoking = authorities.revoke(authority.id, { reason: "ca_compromise" });
    const answers = await Promise.all(issuing);
    await revoking;

    for (const { status, body } of answers) {
      expect(status, JSON.stringify(body)).to.be.oneOf([201, 409]);
      if (status === 201) expect(await certificates.get(body.id)).to.include({ status: "revoked" });
    }
    const [row] = await server.sql("select count(*)::int as n from certificate where ca_id = $1", [authority.id]);
    expect(row.n).to.equal(answers.filter(({ status }) => status === 201).length);
  });
});
