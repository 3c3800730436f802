import { X509Certificate } from "node:crypto";
import { expect } from "chai";
import { renewalJob } from "../../../src/server/certificates/renewals.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { type CertificateRecord, Certificates } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

const dayMs = 86_400_000;
const sweep = (replica = server.server) => renewalJob(replica.core).run({});
const eventsOf = (id: string) => certificates.events(id, "certificate.renew");
const renewAtOf = async (id: string): Promise<Date | null> =>
  (await server.sql("select renew_at from certificate where id = $1", [id]))[0].renew_at;
const successorsOf = async (id: string): Promise<string[]> =>
  (await server.sql("select id from certificate where renewal_of = $1", [id])).map((row) => row.id);

describe("A certificate that is renewed by itself", () => {
  let root: AuthorityRecord;

  before(async () => {
    root = await authorities.root();
  });

  /** One of ninety days that was issued so many days ago. */
  async function issuedBefore(days: number, fields: object = {}): Promise<CertificateRecord> {
    const { id } = await certificates.issued({ ca_id: root.id, auto_renew: true, ...fields });
    await certificates.age(id, days);
    return certificates.get(id);
  }

  it("has a successor once a third of its validity is left, and none before", async () => {
    const [early, due] = [await issuedBefore(59), await issuedBefore(61, { project_id: server.projectId })];

    await sweep();

    expect(await successorsOf(early.id)).to.deep.equal([]);
    const [successorId = ""] = await successorsOf(due.id);
    const successor = await certificates.get(successorId);
    expect(successor).to.include({ renewal_of: due.id, auto_renew: true, created_by: "system", ca_id: root.id });
    expect(successor.project_id).to.equal(server.projectId);
    const publicKey = ({ certificate_pem }: CertificateRecord) =>
      new X509Certificate(certificate_pem).publicKey.export({ format: "pem", type: "spki" });
    expect(publicKey(successor)).to.equal(publicKey(due));
    expect(Date.parse(successor.not_after)).to.be.closeTo(Date.now() + 90 * dayMs, 60_000);
    expect(await certificates.get(due.id)).to.include({ renewed_by: successorId, auto_renew: false, status: "active" });
    expect((await renewAtOf(successorId))?.getTime()).to.be.closeTo(Date.now() + 60 * dayMs, 10 * 60_000);
    const [event, ...more] = await eventsOf(due.id);
    expect(more).to.deep.equal([]);
    expect(event).to.include({ actor_type: "system", outcome: "success", resource_name: "www.example.com" });
    expect(event).to.include({ resource_type: "certificate", project_id: server.projectId });
    const { serial_number, not_after } = successor;
    expect(event.details).to.deep.equal({ ca_id: root.id, renewed_by: successorId, serial_number, not_after });
  });

  it("has one successor, whichever replicas look after it, and how often", async () => {
    const replica = await server.startReplica();
    const due = await Promise.all(Array.from({ length: 8 }, () => issuedBefore(70)));

    await Promise.all([sweep(), sweep(replica), sweep(), sweep(replica)]);
    await sweep();

    for (const { id } of due) {
      expect(await successorsOf(id)).to.have.length(1);
      expect(await eventsOf(id)).to.have.length(1);
    }
  });

  it("has one successor when somebody renews it at the same moment", async () => {
    const due = await Promise.all(Array.from({ length: 6 }, () => issuedBefore(70)));

    await Promise.all([sweep(), ...due.map(({ id }) => certificates.renew(id))]);

    for (const { id } of due) expect(await successorsOf(id)).to.have.length(1);
  });

  it("is renewed after its end, too, when nobody was there to do it before", async () => {
    const { id } = await issuedBefore(100);

    await sweep();

    expect(await successorsOf(id)).to.have.length(1);
  });

  it("is not renewed once it is revoked, or not wanted", async () => {
    const [revoked, off] = [await issuedBefore(10), await issuedBefore(10)];
    await certificates.revoke(revoked.id);
    await certificates.put(off.id, { auto_renew: false });
    await certificates.age(revoked.id, 60);
    await certificates.age(off.id, 60);

    await sweep();

    for (const { id } of [revoked, off]) expect(await successorsOf(id)).to.deep.equal([]);
  });

  it("is renewed when it is switched on late", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    await certificates.age(id, 80);
    await certificates.put(id, { auto_renew: true });

    await sweep();

    expect(await successorsOf(id)).to.have.length(1);
  });

  it("is tried again while its authority is disabled, ever more rarely, which is told once", async () => {
    const authority = await authorities.root();
    const { id } = await issuedBefore(0, { ca_id: authority.id });
    await certificates.age(id, 60.1);
    await authorities.put(authority.id, { status: "disabled" });
    const pauses: number[] = [];
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await sweep();
      const next = (await renewAtOf(id))?.getTime() ?? 0;
      pauses.push(next - Date.now());
      await server.sql("update certificate set renew_at = now() where id = $1", [id]);
    }

    const [event, ...more] = await eventsOf(id);
    expect(more).to.deep.equal([]);
    expect(event).to.include({
      actor_type: "system",
      outcome: "failure",
      reason: "the certificate authority is disabled",
    });
    expect(event.details).to.deep.equal({ ca_id: authority.id, given_up: false });
    for (const pause of pauses) expect(pause).to.be.within(50_000, 3_600_000);

    await authorities.put(authority.id, { status: "active" });
    await sweep();
    expect(await successorsOf(id)).to.have.length(1);
  });

  it("waits as long as it has been due, between a minute and an hour", async () => {
    const authority = await authorities.root();
    await authorities.put(authority.id, { status: "disabled" });
    const cases: [string, number][] = [
      ["1 second", 60_000],
      ["10 minutes", 600_000],
      ["5 days", 3_600_000],
    ];
    for (const [ago, pause] of cases) {
      await authorities.put(authority.id, { status: "active" });
      const { id } = await certificates.issued({ ca_id: authority.id, auto_renew: true });
      await authorities.put(authority.id, { status: "disabled" });
      await server.sql(
        `with moved as (select id, now() - $2::interval - renew_at as by from certificate where id = $1)
         update certificate c set renew_at = renew_at + by, not_before = not_before + by, not_after = not_after + by
         from moved where c.id = moved.id`,
        [id, ago],
      );

      await sweep();

      const next = (await renewAtOf(id))?.getTime() ?? 0;
      expect(next - Date.now(), ago).to.be.closeTo(pause, 20_000);
    }
  });

  it("is given up when its authority is revoked, has ended, or ends no later, which is told once", async () => {
    const [revoked, expired] = [await authorities.root(), await authorities.root()];
    const ending = await authorities.root({ validity_days: 90 });
    const due: [string, CertificateRecord][] = [
      ["the certificate authority is revoked", await issuedBefore(70, { ca_id: revoked.id })],
      ["the certificate authority is expired", await issuedBefore(70, { ca_id: expired.id })],
      [
        "the certificate authority ends no later than the certificate",
        await certificates.issued({ ca_id: ending.id, auto_renew: true }),
      ],
    ];
    await authorities.revoke(revoked.id);
    await authorities.expire(expired.id);
    await server.sql("update certificate set renew_at = now() - interval '1 second' where ca_id = $1", [ending.id]);

    await sweep();
    await sweep();

    for (const [reason, { id }] of due) {
      const [event, ...more] = await eventsOf(id);
      expect(more, reason).to.deep.equal([]);
      expect(event).to.include({ outcome: "failure", reason });
      expect(event.details.given_up).to.equal(true);
      expect([await renewAtOf(id), await successorsOf(id)]).to.deep.equal([null, []]);
    }
  });

  it("keeps no other from being renewed when it cannot be, and is told of without what went wrong inside", async () => {
    const authority = await authorities.root();
    const [bad, good] = [await issuedBefore(80, { ca_id: authority.id }), await issuedBefore(70)];
    await server.sql("update certificate_authority set sealed_key = '\\x00' where id = $1", [authority.id]);

    await sweep();

    expect(await successorsOf(good.id)).to.have.length(1);
    const [event] = await eventsOf(bad.id);
    expect(event).to.include({ outcome: "failure", reason: "what it takes cannot be read" });
    expect(await renewAtOf(bad.id)).not.to.equal(null);
  });

  it("has nothing half made when the audit log cannot be written, and its successor afterwards", async () => {
    const { id } = await issuedBefore(70);
    const statuses = async () =>
      (await server.sql("select count(*)::int as n from certificate_status where ca_id = $1", [root.id]))[0].n;
    const before = await statuses();
    await server.sql("alter table audit_event rename to audit_event_away");
    try {
      await sweep();
      expect([await successorsOf(id), await statuses()]).to.deep.equal([[], before]);
      expect(await certificates.get(id)).to.include({ renewed_by: null, auto_renew: true });
    } finally {
      await server.sql("alter table audit_event_away rename to audit_event");
    }

    await sweep();

    expect(await successorsOf(id)).to.have.length(1);
  });

  it("is renewed among more than fit in one batch", async () => {
    const { id } = await issuedBefore(70);
    await certificates.copy(id, 230);

    await sweep();

    const [row] = await server.sql(
      "select count(*)::int as n, count(renewed_by)::int as renewed from certificate where created_by = 'copy'",
    );
    expect(row).to.deep.equal({ n: 230, renewed: 230 });
  });
});
