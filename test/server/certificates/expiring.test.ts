import { expect } from "chai";
import { expiringJob } from "../../../src/server/certificates/expiring.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { Certificates } from "./certificates.ts";

const server = useServer();
const authorities = new Authorities(server);
const certificates = new Certificates(server);

const sweep = () => expiringJob(server.server.core).run({});
const noticesOf = async (id: string): Promise<number[]> =>
  (await certificates.events(id, "certificate.expiring")).map(({ details }) => details.days);

/** Lets days go by, with a sweep after every so many of them. */
async function live(id: string, days: number, step: number): Promise<void> {
  for (let day = 0; day < days; day += step) {
    await certificates.age(id, step);
    await sweep();
  }
}

describe("The end of a certificate", () => {
  let root: AuthorityRecord;

  before(async () => {
    root = await authorities.root();
  });

  it("is told of 30, 7 and 1 days before, each once, by the system", async () => {
    const certificate = await certificates.issued({ ca_id: root.id, project_id: server.projectId, validity_days: 33 });
    const { id } = certificate;

    await live(id, 2, 2);
    const before = await noticesOf(id);
    await live(id, 30, 2);
    await sweep();

    expect(before).to.deep.equal([]);
    expect(await noticesOf(id)).to.deep.equal([30, 7, 1]);
    const [event] = await certificates.events(id, "certificate.expiring");
    expect(event).to.include({
      actor_type: "system",
      actor_id: null,
      outcome: "success",
      resource_type: "certificate",
    });
    expect(event).to.include({ resource_name: "www.example.com", project_id: server.projectId });
    expect(event.details).to.include({ days: 30, serial_number: certificate.serial_number });
    expect(Date.parse(event.details.not_after)).to.be.below(Date.parse(certificate.not_after));
  });

  it("is told of only at times that are still ahead when the certificate is issued", async () => {
    const cases: [number, number[]][] = [
      [30, [7, 1]],
      [7, [1]],
      [1, []],
    ];
    for (const [validity_days, notices] of cases) {
      const { id } = await certificates.issued({ ca_id: root.id, validity_days });

      await live(id, validity_days - 0.5, (validity_days - 0.5) / 20);

      expect(await noticesOf(id), String(validity_days)).to.deep.equal(notices);
    }
  });

  it("is told of once, with the days of the last notice, when nobody did in time; and not at all when it is past", async () => {
    const [late, past] = [await certificates.issued({ ca_id: root.id }), await certificates.issued({ ca_id: root.id })];
    await certificates.age(late.id, 84);
    await certificates.age(past.id, 91);

    await sweep();

    expect(await noticesOf(late.id)).to.deep.equal([7]);
    expect(await noticesOf(past.id)).to.deep.equal([]);
    const [row] = await server.sql("select expiring_at from certificate where id = $1", [past.id]);
    expect(row.expiring_at).to.equal(null);
  });

  it("is not told of when there is a successor, or the certificate or its authority is revoked", async () => {
    const authority = await authorities.root();
    const [renewed, revoked, orphan] = [
      await certificates.issued({ ca_id: root.id }),
      await certificates.issued({ ca_id: root.id }),
      await certificates.issued({ ca_id: authority.id }),
    ];
    const { body: successor } = await certificates.renew(renewed.id);
    await certificates.revoke(revoked.id);
    await authorities.revoke(authority.id);
    for (const { id } of [renewed, revoked, orphan, successor]) await certificates.age(id, 61);

    await sweep();

    for (const { id } of [renewed, revoked, orphan]) expect(await noticesOf(id)).to.deep.equal([]);
    expect(await noticesOf(successor.id)).to.deep.equal([30]);
  });

  it("is told of once by several replicas at once", async () => {
    const due = [];
    for (let n = 0; n < 10; n += 1) due.push(await certificates.issued({ ca_id: root.id }));
    for (const { id } of due) await certificates.age(id, 61);

    await Promise.all([sweep(), sweep(), sweep()]);

    for (const { id } of due) expect(await noticesOf(id)).to.deep.equal([30]);
  });

  it("stays to be told while the audit log cannot be written", async () => {
    const { id } = await certificates.issued({ ca_id: root.id });
    await certificates.age(id, 61);
    await server.sql("alter table audit_event rename to audit_event_away");
    const failed = await sweep().then(
      () => false,
      () => true,
    );
    await server.sql("alter table audit_event_away rename to audit_event");

    await sweep();

    expect(failed).to.equal(true);
    expect(await noticesOf(id)).to.deep.equal([30]);
  });
});
