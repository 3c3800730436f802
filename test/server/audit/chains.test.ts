import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { type Log, newLog, verdict, writeAtOnce } from "./tampering.ts";

const server = useServer();

const chainsOf = ({ organizationId }: Log) =>
  server.sql("select number, length from audit_chain where organization_id = $1 order by number", [organizationId]);
const eventsOf = ({ organizationId }: Log, condition = "true") =>
  server.sql(`select * from audit_event where organization_id = $1 and ${condition} order by chain, sequence`, [
    organizationId,
  ]);
const read = ({ admin, secretId }: Log, by = admin) => by.rest("GET", `/api/v1/secrets/${secretId}`);
const create = ({ admin, projectId }: Log, by = admin, requestId: string = randomUUID()) => {
  const body = { project_id: projectId, key: randomUUID(), value: "v" };
  return by.rest("POST", "/api/v1/secrets", body, { "x-request-id": requestId });
};

describe("The chains of the audit log", () => {
  it("hold one after the other what is done one after the other, in one chain", async () => {
    const log = await newLog(server);

    const events = await eventsOf(log);

    expect(events.map(({ chain, sequence }) => `${chain}/${sequence}`)).to.deep.equal(
      Array.from({ length: 11 }, (_, at) => `1/${at + 1}`),
    );
    events.slice(1).forEach((event, at) => expect(event.previous_hash).to.deep.equal(events[at]?.hash));
    expect(await chainsOf(log)).to.deep.equal([{ number: 1, length: 11 }]);
  });

  it("are as many as write at once, and are continued afterwards", async () => {
    const log = await newLog(server);
    for (let round = 0; round < 5; round += 1) await writeAtOnce(log);
    const before = await chainsOf(log);

    for (let count = 0; count < 5; count += 1) await read(log);
    const after = await chainsOf(log);

    // Never more than connections of the pool and batches of reads.
    expect(before.length).to.be.within(2, 16 + 4);
    expect(after.map(({ number }) => number)).to.deep.equal(before.map(({ number }) => number));
    expect(await verdict(log)).to.equal("intact");
  });

  it("are each organization's own, whoever shares a batch with it", async () => {
    const logs = await Promise.all([newLog(server), newLog(server), newLog(server)]);

    await Promise.all(logs.flatMap((log) => Array.from({ length: 20 }, () => read(log))));

    for (const log of logs) {
      expect(await eventsOf(log)).to.have.length(31);
      expect(await verdict(log)).to.equal("intact");
    }
  });

  it("have no hole where a change was refused, or failed at its very commit", async () => {
    const log = await newLog(server);
    const { body: secret } = await create(log);
    await server.sql(`
      create function fail() returns trigger language plpgsql as 'begin raise exception ''not today''; end';
      create constraint trigger late after insert on secret deferrable initially deferred
        for each row when (new.description = 'fail at the commit') execute function fail()`);

    const taken = await log.admin.rest("POST", "/api/v1/secrets", {
      project_id: log.projectId,
      key: secret.key,
      value: "v",
    });
    const failed = await log.admin.rest("POST", "/api/v1/secrets", {
      project_id: log.projectId,
      key: "k",
      value: "v",
      description: "fail at the commit",
    });
    await create(log);

    expect([taken.status, failed.status]).to.deep.equal([409, 500]);
    expect(await eventsOf(log, "outcome = 'failure'")).to.have.length(2);
    expect(await verdict(log)).to.equal("intact");
  });

  it("are taken over from a replica that is gone, and never shared with one that is back", async () => {
    const log = await newLog(server);
    const replica = await server.startReplica({}, ["api"]);
    const there = new Client(urlOf(replica), log.admin.token);

    await server.sql("update audit_chain set written_at = now() - interval '1 hour'");
    const taken = await read(log, there);
    const refused = await read(log);
    const served = [await read(log), await read(log, there), await create(log), await create(log, there)];
    await replica.stop(500);

    expect(taken.status).to.equal(200);
    expect(refused.status).to.equal(503);
    expect(served.map(({ status }) => status)).to.deep.equal([200, 200, 201, 201]);
    expect((await chainsOf(log)).map(({ length }) => length)).to.deep.equal([11 + 1 + 2, 2]);
    expect(await verdict(log)).to.equal("intact");
  });

  it("stay whole, and lose nothing that was answered, when connections die under two replicas at once", async function () {
    this.timeout(60_000);
    const log = await newLog(server);
    const replica = await server.startReplica({}, ["api"]);
    const clients = [log.admin, new Client(urlOf(replica), log.admin.token)];
    const answered = new Set<string>();
    let failures = 0;
    const stop = new AbortController();
    const worker = async (client: Client, reads: boolean) => {
      while (!stop.signal.aborted) {
        const requestId = randomUUID();
        const headers = { "x-request-id": requestId };
        const { status } = reads
          ? await client.rest("GET", `/api/v1/secrets/${log.secretId}`, undefined, headers)
          : await create(log, client, requestId);
        if (status < 300) answered.add(requestId);
        else failures += 1;
      }
    };

    const workers = clients.flatMap((client) => [0, 1, 2, 3, 4, 5].map((n) => worker(client, n % 2 === 0)));
    for (let round = 0; round < 5; round += 1) {
      await sleep(300);
      await server.sql(`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'holdfast'`);
    }
    const before = answered.size;
    while (answered.size < before + 50) await sleep(50);
    stop.abort();
    await Promise.all(workers);
    await replica.stop(500);

    const recorded = new Set((await eventsOf(log, "outcome = 'success'")).map(({ request_id }) => request_id));
    expect(failures).to.be.above(0);
    expect([...answered].filter((requestId) => !recorded.has(requestId))).to.deep.equal([]);
    expect(await verdict(log)).to.equal("intact");
  });
});
