import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { type Log, newLog, tamper, verdict, verdictOffline, writeAtOnce } from "./tampering.ts";

const server = useServer();
const ofThird = "where organization_id = $1 and chain = 1 and sequence = 3";
const verify = ({ admin }: Log) => admin.rest("GET", "/api/v1/audit-logs/verify");

describe("VerifyAuditLog", () => {
  it("finds a log as it was written, and says how far its chains go", async () => {
    const log = await newLog(server);

    const { status, body } = await verify(log);

    expect(status).to.equal(200);
    const { head, chains, ...rest } = body;
    expect(rest).to.deep.equal({
      valid: true,
      checked: 11,
      first_sequence: 1,
      last_sequence: 11,
      broken_at: null,
      broken_chain: null,
      broken_reason: null,
    });
    const { body: list } = await log.admin.rest("GET", "/api/v1/audit-logs");
    expect(chains).to.deep.equal([{ chain: 1, length: 11, hash: list.data[0].hash }]);
    expect(head).to.match(/^[0-9a-f]{64}$/);
    expect(await verdictOffline(server, log, body)).to.equal("intact");
  });

  it("follows every chain of an organization that many write to at once", async () => {
    const log = await newLog(server);
    await writeAtOnce(log);

    const { body } = await verify(log);

    expect(body).to.include({ valid: true, checked: 23 });
    expect(body.chains.length).to.be.above(1);
    expect(await verdictOffline(server, log, body)).to.equal("intact");
  });

  it("is not misled by what is written meanwhile", async () => {
    const log = await newLog(server);
    const stop = new AbortController();
    const writer = (async () => {
      while (!stop.signal.aborted) await writeAtOnce(log);
    })();

    const verdicts = [];
    for (let time = 0; time < 10; time += 1) verdicts.push(await verdict(log));
    stop.abort();
    await writer;

    expect(new Set(verdicts)).to.deep.equal(new Set(["intact"]));
  });

  it("answers another head after each event, and the same while there is none", async () => {
    const log = await newLog(server);
    const heads = [];
    for (const reads of [0, 0, 1]) {
      for (let read = 0; read < reads; read += 1) await log.admin.rest("GET", `/api/v1/secrets/${log.secretId}`);
      heads.push((await verify(log)).body.head);
    }

    expect(heads[1]).to.equal(heads[0]);
    expect(heads[2]).not.to.equal(heads[0]);
  });

  it("is open to those who hold audit:read at the organization, and records who was refused", async () => {
    const { body: project } = await server.admin.rest("POST", "/api/v1/projects", { name: "verified" });
    const here = await server.as("verifier-here", { projectRoles: [{ project_id: project.id, role: "auditor" }] });
    const auditor = await server.as("verifier", ["auditor"]);

    expect((await auditor.rest("GET", "/api/v1/audit-logs/verify")).body.valid).to.equal(true);
    expect((await here.rest("GET", "/api/v1/audit-logs/verify")).status).to.equal(403);
    expect(await server.auditTrail()).to.include("verifier-here audit.verify denied");
  });
});

describe("Whoever changes the audit log in the database", () => {
  const nextUuid = (column: string) =>
    `overlay(${column}::text placing translate(right(${column}::text, 1), '0123456789abcdef', '123456789abcdef0') from 36)::uuid`;
  /** One byte, or the smallest step, in each column of an event; where that is not "changed", what is found instead. */
  const changes: Readonly<Record<string, [change: string, elsewhere?: string]>> = {
    id: [nextUuid("id")],
    organization_id: [nextUuid("organization_id"), "missing"],
    occurred_at: ["occurred_at + interval '1 millisecond'"],
    action: ["overlay(action placing 'S' from 1)"],
    outcome: ["overlay(outcome placing 'S' from 1)"],
    actor_type: ["overlay(actor_type placing 'M' from 1)"],
    actor_id: [nextUuid("actor_id")],
    actor_name: ["overlay(actor_name placing 'A' from 1)"],
    resource_type: ["overlay(resource_type placing 'S' from 1)"],
    resource_id: ["overlay(resource_id placing 'X' from 1)"],
    resource_name: ["overlay(resource_name placing 'K' from 1)"],
    project_id: ["null"],
    reason: ["''"],
    request_id: ["overlay(request_id placing 'X' from 1)"],
    source_ip: ["overlay(source_ip placing '2' from 1)"],
    user_agent: ["overlay(user_agent placing 'N' from 1)"],
    details: ["overlay(details placing '2' from length(details) - 1)"],
    chain: ["chain + 1", "missing"],
    sequence: ["sequence + 100", "missing"],
    previous_hash: ["set_byte(previous_hash, 31, 255 - get_byte(previous_hash, 31))"],
    hash: ["set_byte(hash, 0, 255 - get_byte(hash, 0))"],
  };

  it("is found out by every column of an event, with its place, online and from an export", async function () {
    this.timeout(60_000);
    const columns = await server.sql(
      "select column_name from information_schema.columns where table_schema = 'public' and table_name = 'audit_event'",
    );
    expect(Object.keys(changes)).to.have.members(columns.map(({ column_name }) => column_name));
    for (const [column, [change, elsewhere = "changed"]] of Object.entries(changes)) {
      const log = await newLog(server);
      await tamper(server, log, `update audit_event set ${column} = ${change} ${ofThird}`);

      expect(await verdict(log), column).to.equal(`1/3 ${elsewhere}`);
      expect(await verdictOffline(server, log), column).to.equal(`1/3 ${elsewhere}`);
    }
  });

  it("is found out though the event means the same", async () => {
    const log = await newLog(server);
    await tamper(server, log, `update audit_event set details = details || ' ' ${ofThird}`);

    expect(await verdict(log)).to.equal("1/3 changed");
  });

  it("is found out by a time that there is not", async () => {
    const log = await newLog(server);
    await tamper(server, log, `update audit_event set occurred_at = 'infinity' ${ofThird}`);

    expect(await verdict(log)).to.equal("1/3 changed");
  });

  it("is found out by an event that is gone: the first, one amid the chain, the last", async () => {
    for (const sequence of [1, 6, 11]) {
      const log = await newLog(server);
      const { body: checkpoint } = await verify(log);
      const place = `organization_id = $1 and chain = 1 and sequence = ${sequence}`;
      await tamper(server, log, `delete from audit_event where ${place}`);

      expect(await verdict(log)).to.equal(`1/${sequence} missing`);
      expect(await verdictOffline(server, log, checkpoint)).to.equal(`1/${sequence} missing`);
    }
  });

  it("is found out by two events that were swapped, neighbours or not", async () => {
    for (const [a, b] of [
      [4, 5],
      [2, 9],
    ] as const) {
      const log = await newLog(server);
      const swap = `update audit_event set sequence = ${a} + ${b} - sequence where organization_id = $1 and sequence in (${a}, ${b})`;
      await tamper(server, log, swap);

      expect(await verdict(log)).to.equal(`1/${a} moved`);
      expect(await verdictOffline(server, log)).to.equal(`1/${a} moved`);
    }
  });

  it("is found out by the contents of two events that were swapped", async () => {
    const log = await newLog(server);
    await tamper(
      server,
      log,
      `update audit_event a set request_id = b.request_id from audit_event b
       where a.organization_id = $1 and b.organization_id = $1 and a.sequence in (4, 5) and b.sequence = 9 - a.sequence`,
    );

    expect(await verdict(log)).to.equal("1/4 changed");
    expect(await verdictOffline(server, log)).to.equal("1/4 changed");
  });

  it("is found out by an event that was invented after another's likeness", async () => {
    const columns = Object.keys(changes).filter((name) => name !== "id" && name !== "sequence");
    for (const [sequence, place] of [
      [12, "1/12 changed"],
      [5, "1/5 changed"],
      [40, "1/12 missing"],
    ] as const) {
      const log = await newLog(server);
      await tamper(
        server,
        log,
        `insert into audit_event (sequence, ${columns.join(", ")})
         select ${sequence}, ${columns.join(", ")} from audit_event ${ofThird}`,
      );

      expect(await verdict(log)).to.equal(place);
      expect(await verdictOffline(server, log)).to.equal(place);
    }
  });

  it("is found out by events that others closed up to", async () => {
    const log = await newLog(server);
    await tamper(server, log, "delete from audit_event where organization_id = $1 and sequence = 4");
    await tamper(
      server,
      log,
      "update audit_event set sequence = sequence - 1 where organization_id = $1 and sequence > 4",
    );

    expect(await verdict(log)).to.equal("1/4 moved");
    expect(await verdictOffline(server, log)).to.equal("1/4 moved");
  });

  it("is found out by an end that was cut, even if the record of the end was set back", async () => {
    const cut = await newLog(server);
    const { body: checkpoint } = await verify(cut);
    await tamper(server, cut, "delete from audit_event where organization_id = $1 and sequence > 7");

    const concealed = await newLog(server);
    const { body: otherCheckpoint } = await verify(concealed);
    await tamper(server, concealed, "delete from audit_event where organization_id = $1 and sequence > 7");
    await tamper(
      server,
      concealed,
      `update audit_chain c set length = 7, head = e.hash from audit_event e
       where c.organization_id = $1 and e.organization_id = $1 and e.sequence = 7`,
    );

    expect(await verdict(cut)).to.equal("1/8 missing");
    expect(await verdict(concealed)).to.equal("1/7 changed");
    expect(await verdictOffline(server, cut, checkpoint)).to.equal("1/8 missing");
    expect(await verdictOffline(server, concealed, otherCheckpoint)).to.equal("1/8 missing");
  });

  it("is found out by a chain that is gone: its events, its end, or both", async () => {
    const statements = {
      events: ["delete from audit_event where organization_id = $1 and chain = 2"],
      end: ["delete from audit_chain where organization_id = $1 and number = 2"],
      both: [
        "delete from audit_event where organization_id = $1 and chain = 2",
        "delete from audit_chain where organization_id = $1 and number = 2",
      ],
    };
    for (const [what, run] of Object.entries(statements)) {
      const log = await newLog(server);
      while ((await verify(log)).body.chains.length < 3) await writeAtOnce(log);
      const { body: checkpoint } = await verify(log);
      const { length } = checkpoint.chains[1];
      for (const statement of run) await tamper(server, log, statement);

      expect(await verdict(log), what).to.equal(`2/${what === "end" ? length + 1 : 1} missing`);
      const offline = what === "end" ? "intact" : "2/1 missing";
      expect(await verdictOffline(server, log, checkpoint), what).to.equal(offline);
    }
  });

  it("is found out by the last chain that is gone, with a checkpoint that was kept elsewhere", async () => {
    const log = await newLog(server);
    await writeAtOnce(log);
    const { body: checkpoint } = await verify(log);
    const last = checkpoint.chains.length;
    await tamper(server, log, `delete from audit_event where organization_id = $1 and chain = ${last}`);
    await tamper(server, log, `delete from audit_chain where organization_id = $1 and number = ${last}`);

    const { body } = await verify(log);

    expect(body.head).not.to.equal(checkpoint.head);
    expect(await verdictOffline(server, log, checkpoint)).to.equal(`${last}/1 missing`);
  });

  it("is found out by every column of a chain's end", async () => {
    const ends: Readonly<Record<string, string>> = {
      length: "length + 1",
      head: "set_byte(head, 5, 255 - get_byte(head, 5))",
      seal: "set_byte(seal, 5, 255 - get_byte(seal, 5))",
      number: "number + 1",
    };
    for (const [column, change] of Object.entries(ends)) {
      const log = await newLog(server);
      await tamper(server, log, `update audit_chain set ${column} = ${change} where organization_id = $1`);

      expect(await verdict(log), column).to.match(/^1\/1[12] (changed|missing)$/);
    }
  });

  it("does not get the server to go on from a forged end", async () => {
    const log = await newLog(server);
    await tamper(server, log, "delete from audit_event where organization_id = $1 and sequence > 7");
    await tamper(
      server,
      log,
      `update audit_chain c set length = 7, head = e.hash, written_at = now() - interval '1 day' from audit_event e
       where c.organization_id = $1 and e.organization_id = $1 and e.sequence = 7`,
    );

    const path = `/api/v1/secrets/${log.secretId}`;
    const refused = await log.admin.rest("GET", path);
    const served = await log.admin.rest("GET", path);

    expect(refused.status).to.equal(503);
    expect(served.status).to.equal(200);
    const chains = await server.sql("select number, length from audit_chain where organization_id = $1 order by 1", [
      log.organizationId,
    ]);
    expect(chains).to.deep.equal([
      { number: 1, length: 7 },
      { number: 2, length: 1 },
    ]);
    expect(await verdict(log)).to.equal("1/7 changed");
  });
});
