import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { type CertificateRecord, Certificates, newCsr } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

const listIsDue = async (caId: string) =>
  (await server.sql("select due_at <= now() as due from crl where ca_id = $1", [caId]))[0].due;

describe("RevokeCertificate", () => {
  let root: AuthorityRecord;

  before(async () => {
    root = await authorities.root();
  });

  it("revokes for good, from now on, and has the list of the authority built anew", async () => {
    const certificate = await certificates.issued({ ca_id: root.id, auto_renew: true });
    await server.sql("update crl set due_at = now() + interval '1 day' where ca_id = $1", [root.id]);
    const begun = Date.now();

    const { status, body } = await certificates.revoke(certificate.id, { reason: "superseded" });

    expect(status).to.equal(200);
    const { private_key_pem: _, ...record } = certificate;
    expect(body).to.deep.equal({
      ...record,
      status: "revoked",
      auto_renew: false,
      revoked_at: body.revoked_at,
      revocation_reason: "superseded",
    });
    expect(Date.parse(body.revoked_at)).to.be.within(begun, Date.now());
    expect(await certificates.get(certificate.id)).to.deep.equal(body);
    const { revoked_at, revocation_reason } = await certificates.statusOf(certificate);
    expect([revoked_at.toISOString(), revocation_reason]).to.deep.equal([body.revoked_at, "superseded"]);
    expect(await listIsDue(root.id)).to.equal(true);
    const [row] = await server.sql("select renew_at, expiring_at from certificate where id = $1", [certificate.id]);
    expect(row).to.deep.equal({ renew_at: null, expiring_at: null });
    const [event] = await certificates.events(certificate.id, "certificate.revoke");
    expect(event).to.include({ outcome: "success", resource_name: "www.example.com" });
    expect(event.details).to.deep.equal({
      ca_id: root.id,
      serial_number: certificate.serial_number,
      reason: "superseded",
    });
  });

  it("takes each reason, and unspecified when none is given", async () => {
    const reasons = ["key_compromise", "ca_compromise", "affiliation_changed", "superseded", "cessation_of_operation"];
    for (const reason of [undefined, "unspecified", "privilege_withdrawn", ...reasons]) {
      const { id } = await certificates.issued({ ca_id: root.id });

      const { body } = await certificates.revoke(id, reason === undefined ? undefined : { reason });

      expect(body.revocation_reason).to.equal(reason ?? "unspecified");
    }
  });

  it("is 400 for another reason, naming it", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    for (const reason of ["certificate_hold", "", "KEY_COMPROMISE", 1]) {
      const { status, body } = await certificates.revoke(id, { reason });

      expect(status, String(reason)).to.equal(400);
      expect(body.error.details[0].field).to.equal("reason");
    }
    expect(await certificates.get(id)).to.include({ status: "active" });
  });

  it("changes nothing when it is repeated, whatever the reason", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    const { body: revoked } = await certificates.revoke(id, { reason: "superseded" });
    await server.sql("update crl set due_at = now() + interval '1 day' where ca_id = $1", [root.id]);

    const same = await certificates.revoke(id, { reason: "superseded" });
    const other = await certificates.revoke(id, { reason: "cessation_of_operation" });

    expect([same.status, other.status]).to.deep.equal([200, 200]);
    expect([same.body, other.body]).to.deep.equal([revoked, revoked]);
    expect(await listIsDue(root.id)).to.equal(false);
  });

  it("lets any reason become key_compromise, at the same time as before, and none of that another one", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    const { body: revoked } = await certificates.revoke(id);
    await server.sql("update crl set due_at = now() + interval '1 day' where ca_id = $1", [root.id]);

    const { body: compromised } = await certificates.revoke(id, { reason: "key_compromise" });
    const { body: still } = await certificates.revoke(id, { reason: "superseded" });

    expect(compromised).to.deep.equal({ ...revoked, revocation_reason: "key_compromise" });
    expect(still).to.deep.equal(compromised);
    expect(await listIsDue(root.id)).to.equal(true);
  });

  it("as key_compromise revokes the others of the project for that key, a successor and those of other authorities too", async () => {
    const { csr } = await newCsr();
    const [other, place] = [await authorities.root(), { csr_pem: csr, project_id: server.projectId }];
    const first = await certificates.issued({ ca_id: root.id, ...place, auto_renew: true });
    const { body: successor } = await certificates.renew(first.id);
    const elsewhere = await certificates.issued({ ca_id: other.id, ...place });
    const superseded = await certificates.issued({ ca_id: root.id, ...place });
    await certificates.revoke(superseded.id, { reason: "superseded" });
    const expired = await certificates.issued({ ca_id: root.id, ...place });
    await certificates.age(expired.id, 91);
    const ofNoProject = await certificates.issued({ ca_id: root.id, csr_pem: csr });
    const ofOtherKey = await certificates.issued({ ca_id: root.id, project_id: server.projectId });
    await server.sql("update crl set due_at = now() + interval '1 day'");

    const { status, body } = await certificates.revoke(first.id, { reason: "key_compromise" });

    expect([status, body.revocation_reason]).to.deep.equal([200, "key_compromise"]);
    for (const { id, serial_number, ca_id } of [successor, elsewhere]) {
      const revoked = await certificates.get(id);
      expect(revoked).to.include({ status: "revoked", revocation_reason: "key_compromise", auto_renew: false });
      expect(revoked.revoked_at).to.equal(body.revoked_at);
      const [event] = await certificates.events(id, "certificate.revoke");
      expect(event).to.include({ outcome: "success", project_id: server.projectId });
      expect(event.details).to.deep.equal({ ca_id, serial_number, reason: "key_compromise", revoked_with: first.id });
    }
    expect(await certificates.get(superseded.id)).to.include({ revocation_reason: "superseded" });
    expect(await certificates.get(expired.id)).to.include({ status: "expired" });
    expect(await certificates.get(ofNoProject.id)).to.include({ status: "active" });
    expect(await certificates.get(ofOtherKey.id)).to.include({ status: "active" });
    expect([await listIsDue(root.id), await listIsDue(other.id)]).to.deep.equal([true, true]);
  });

  it("of certificates for one key as key_compromise, all at once, is one revocation of each", async () => {
    const { csr } = await newCsr();
    const all: CertificateRecord[] = [];
    for (let n = 0; n < 6; n += 1) all.push(await certificates.issued({ ca_id: root.id, csr_pem: csr }));

    const answers = await Promise.all(all.map(({ id }) => certificates.revoke(id, { reason: "key_compromise" })));

    for (const { status, body } of answers) {
      expect([status, body.revocation_reason]).to.deep.equal([200, "key_compromise"]);
    }
    expect(new Set(answers.map(({ body }) => body.revoked_at)).size).to.equal(1);
  });

  it("finds revoked what was revoked with its authority, of which only the key may be compromised beside", async () => {
    const authority = await authorities.root();
    const { id } = await certificates.issued({ ca_id: authority.id });
    const earlier = await certificates.issued({ ca_id: authority.id });
    const { body: own } = await certificates.revoke(earlier.id, { reason: "superseded" });
    await authorities.revoke(authority.id, { reason: "ca_compromise" });
    const revoked = await certificates.get(id);

    const repeated = await certificates.revoke(id, { reason: "superseded" });
    const compromised = await certificates.revoke(id, { reason: "key_compromise" });

    expect(revoked).to.include({ status: "revoked", revocation_reason: "ca_compromise" });
    expect(repeated.body).to.deep.equal(revoked);
    expect(compromised.body).to.deep.equal({ ...revoked, revocation_reason: "key_compromise" });
    expect(await certificates.get(id)).to.deep.equal(compromised.body);
    expect(await certificates.get(earlier.id)).to.deep.equal(own);
  });

  it("revokes what is expired, too", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    await certificates.age(id, 91);
    expect(await certificates.get(id)).to.include({ status: "expired" });

    const { body } = await certificates.revoke(id);

    expect(body).to.include({ status: "revoked" });
  });

  it("works for what a disabled authority issued", async () => {
    const authority = await authorities.root();
    const { id } = await certificates.issued({ ca_id: authority.id });
    await authorities.put(authority.id, { status: "disabled" });

    const { status, body } = await certificates.revoke(id);

    expect([status, body.status]).to.deep.equal([200, "revoked"]);
  });

  it("is one revocation when several ask at once", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });

    const answers = await Promise.all(Array.from({ length: 8 }, () => certificates.revoke(id)));

    expect(new Set(answers.map(({ body }) => body.revoked_at)).size).to.equal(1);
    expect(answers.every(({ status }) => status === 200)).to.equal(true);
  });

  it("replays its answer under an Idempotency-Key", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    const headers = { "idempotency-key": randomUUID() };
    const path = `/api/v1/certificates/${id}/revoke`;

    const first = await server.admin.rest("POST", path, {}, headers);
    const second = await server.admin.rest("POST", path, {}, headers);

    expect(second.headers.get("idempotency-replayed")).to.equal("true");
    expect(second.body).to.deep.equal(first.body);
  });
});
