import { createPrivateKey, randomUUID, X509Certificate } from "node:crypto";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { type CertificateRecord, Certificates, certificatesPath, faultsOf, newCsr } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

const dayMs = 86_400_000;
const keyOf = ({ certificate_pem }: CertificateRecord) =>
  new X509Certificate(certificate_pem).publicKey.export({ format: "pem", type: "spki" });
const lengthOf = ({ created_at, not_after }: CertificateRecord) =>
  Date.parse(not_after) - Math.floor(Date.parse(created_at) / 1000) * 1000;
const count = async () => (await server.sql("select count(*)::int as n from certificate"))[0].n;

describe("RenewCertificate", () => {
  let root: AuthorityRecord;

  before(async () => {
    root = await authorities.root();
  });

  it("issues a successor for the same names and the same key, as long as the first, and returns no key", async () => {
    const names = { dns: ["www.example.com"], ip: ["192.0.2.1"], email: ["a@example.com"], uri: ["https://a.example"] };
    const first = await certificates.issued({
      ca_id: root.id,
      project_id: server.projectId,
      subject: { common_name: "www.example.com", organization: "Example" },
      subject_alternative_names: names,
      profile: "server_client",
      validity_days: 30,
    });

    const { status, headers, body } = await certificates.renew(first.id);

    expect(status).to.equal(201);
    expect(headers.get("location")).to.equal(certificatesPath(body.id));
    for (const field of ["ca_id", "project_id", "subject", "subject_alternative_names", "profile", "key_algorithm"])
      expect(body[field], field).to.deep.equal(first[field]);
    expect(body).to.include({ status: "active", renewal_of: first.id, renewed_by: null });
    expect(body.serial_number).not.to.equal(first.serial_number);
    expect(keyOf(body)).to.equal(keyOf(first));
    expect(lengthOf(body)).to.equal(30 * dayMs);
    expect(body).not.to.have.property("private_key_pem");
    expect(await certificates.get(body.id)).to.deep.equal(body);
    expect(await certificates.get(first.id)).to.include({ status: "active", renewed_by: body.id });
    const [event] = await certificates.events(first.id, "certificate.renew");
    expect(event).to.include({ outcome: "success", actor_id: server.admin.id, project_id: server.projectId });
    const { serial_number, not_after } = body;
    expect(event.details).to.deep.equal({ ca_id: root.id, renewed_by: body.id, serial_number, not_after });
  });

  it("takes another key by a signing request, of which it takes nothing else", async () => {
    const first = await certificates.issued({ ca_id: root.id });
    const { csr, privateKey } = await newCsr("CN=evil.example.org", [["dns", "evil.example.org"]]);

    const { body } = await certificates.renew(first.id, { csr_pem: csr });

    expect(body.subject).to.deep.equal(first.subject);
    expect(body.subject_alternative_names).to.deep.equal(first.subject_alternative_names);
    const key = createPrivateKey({ key: privateKey, format: "der", type: "pkcs8" });
    expect(new X509Certificate(body.certificate_pem).checkPrivateKey(key)).to.equal(true);
  });

  it("lives as long as asked, but no longer than the authority", async () => {
    const short = await authorities.root({ validity_days: 20 });
    const [first, second, third] = [
      await certificates.issued({ ca_id: short.id, validity_days: 20 }),
      await certificates.issued({ ca_id: short.id, validity_days: 1 }),
      await certificates.issued({ ca_id: short.id, validity_days: 1 }),
    ];
    // Issued before, as far as its length goes.
    await certificates.age(first.id, 5);

    const cut = await certificates.renew(first.id);
    const asked = await certificates.renew(second.id, { validity_days: 3 });
    const refused = await certificates.renew(third.id, { validity_days: 21 });

    expect(cut.body.not_after).to.equal(short.not_after);
    expect(lengthOf(asked.body)).to.equal(3 * dayMs);
    expect(refused.status).to.equal(400);
    expect(faultsOf(refused)).to.have.keys("validity_days");
  });

  it("hands on to the successor that it is renewed by itself, and that its end is told of", async () => {
    const first = await certificates.issued({ ca_id: root.id, auto_renew: true });

    const { body } = await certificates.renew(first.id);

    expect(body.auto_renew).to.equal(true);
    expect(await certificates.get(first.id)).to.include({ auto_renew: false });
    const rows = await server.sql(
      "select id, renew_at is not null as renews, expiring_at is not null as tells from certificate where id = any($1) order by id",
      [[first.id, body.id]],
    );
    expect(rows).to.deep.equal([
      { id: first.id, renews: false, tells: false },
      { id: body.id, renews: true, tells: true },
    ]);
  });

  it("is 409 when there is a successor, which is named, or the certificate is revoked", async () => {
    const first = await certificates.issued({ ca_id: root.id });
    const { body: successor } = await certificates.renew(first.id);
    const revoked = await certificates.issued({ ca_id: root.id });
    await certificates.revoke(revoked.id);
    const before = await count();

    const again = await certificates.renew(first.id);
    const late = await certificates.renew(revoked.id);
    const further = await certificates.renew(successor.id);

    expect(again.status).to.equal(409);
    expect(again.body.error.message).to.include(successor.id);
    expect(late.status).to.equal(409);
    expect(further.status).to.equal(201);
    expect(await count()).to.equal(before + 1);
  });

  it("renews what is expired", async () => {
    const first = await certificates.issued({ ca_id: root.id });
    await certificates.age(first.id, 91);

    const { status, body } = await certificates.renew(first.id);

    expect([status, lengthOf(body)]).to.deep.equal([201, 90 * dayMs]);
  });

  it("is 409 for an authority that does not issue any more, and 400 for what is no signing request", async () => {
    const authority = await authorities.root();
    const { id } = await certificates.issued({ ca_id: authority.id });
    const malformed = await certificates.renew(id, { csr_pem: "hello" });
    await authorities.put(authority.id, { status: "disabled" });
    const disabled = await certificates.renew(id);
    await authorities.revoke(authority.id);
    const revoked = await certificates.renew(id);

    expect(malformed.status).to.equal(400);
    expect(faultsOf(malformed)).to.have.keys("csr_pem");
    expect([disabled.status, revoked.status]).to.deep.equal([409, 409]);
    expect(await certificates.get(id)).to.include({ renewed_by: null });
  });

  it("asks for another key when this one was compromised in another project", async () => {
    const { csr } = await newCsr();
    const first = await certificates.issued({ ca_id: root.id, csr_pem: csr, project_id: server.projectId });
    const second = await certificates.issued({ ca_id: root.id, csr_pem: csr });
    await certificates.revoke(first.id, { reason: "key_compromise" });

    const same = await certificates.renew(second.id);
    const other = await certificates.renew(second.id, { csr_pem: (await newCsr()).csr });

    expect(same.status).to.equal(400);
    expect(faultsOf(same)).to.have.keys("csr_pem");
    expect(other.status).to.equal(201);
  });

  it("makes one successor of several that are asked for at once", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    const before = await count();

    const answers = await Promise.all(Array.from({ length: 6 }, () => certificates.renew(id)));

    expect(answers.map(({ status }) => status)).to.have.members([201, 409, 409, 409, 409, 409]);
    expect(await count()).to.equal(before + 1);
  });

  it("replays its answer under an Idempotency-Key, and makes nothing more", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    const headers = { "idempotency-key": randomUUID() };

    const first = await certificates.renew(id, {}, server.admin, headers);
    const before = await count();
    const second = await certificates.renew(id, {}, server.admin, headers);

    expect([second.status, second.body]).to.deep.equal([201, first.body]);
    expect(second.headers.get("idempotency-replayed")).to.equal("true");
    expect(await count()).to.equal(before);
  });
});

describe("UpdateCertificate", () => {
  let root: AuthorityRecord;
  const renewAtOf = async (id: string): Promise<Date | null> =>
    (await server.sql("select renew_at from certificate where id = $1", [id]))[0].renew_at;

  before(async () => {
    root = await authorities.root();
  });

  it("switches on and off that a successor is issued when a third of the validity is left", async () => {
    const certificate = await certificates.issued({ ca_id: root.id, validity_days: 30 });
    const { id, not_after, not_before } = certificate;

    const on = await certificates.put(id, { auto_renew: true });
    const due = await renewAtOf(id);
    const unmentioned = await certificates.put(id, {});
    const off = await certificates.put(id, { auto_renew: false });

    const third = (Date.parse(not_after) - Date.parse(not_before)) / 3;
    expect([on.status, on.body.auto_renew]).to.deep.equal([200, true]);
    expect(due?.getTime()).to.be.closeTo(Date.parse(not_after) - third, 1000);
    expect(unmentioned.body).to.deep.equal(on.body);
    expect([off.body.auto_renew, await renewAtOf(id)]).to.deep.equal([false, null]);
    const events = await certificates.events(id, "certificate.update");
    expect(events.map(({ details }) => details)).to.deep.equal([{ auto_renew: true }, {}, { auto_renew: false }]);
  });

  it("is 409 for what is revoked, expired, or has a successor; to switch it off never is", async () => {
    const [revoked, expired, renewed] = [
      await certificates.issued({ ca_id: root.id }),
      await certificates.issued({ ca_id: root.id }),
      await certificates.issued({ ca_id: root.id }),
    ];
    await certificates.revoke(revoked.id);
    await certificates.age(expired.id, 91);
    await certificates.renew(renewed.id);
    for (const { id } of [revoked, expired, renewed]) {
      expect((await certificates.put(id, { auto_renew: true })).status).to.equal(409);
      expect((await certificates.put(id, { auto_renew: false })).status).to.equal(200);
    }
  });
});
