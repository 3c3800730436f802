import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { renewalJob } from "../../src/server/certificates/renewals.ts";
import type { Client } from "../harness/client.ts";
import { randomFrom } from "../harness/random.ts";
import { useServer } from "../harness/server.ts";
import { Authorities } from "../server/certificates/authorities.ts";
import { type CertificateRecord, Certificates, certificatesPath } from "../server/certificates/certificates.ts";
import { until } from "./own-engines.ts";
import { ServerProcess } from "./server-process.ts";

const rounds = 8;
const callers = 6;
/** How many fall due in each round. */
const due = 100;
/** From the first successor to the kill. */
const longestMs = 1000;
const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe("A server that is killed while it issues and renews certificates, again and again", () => {
  const server = useServer({ LOG_LEVEL: "warn" });
  const authorities = new Authorities(server);
  const certificates = new Certificates(server);
  const random = randomFrom(seed);
  /** What clients were answered, by id. */
  const answered = new Map<string, CertificateRecord>();
  const strange: string[] = [];

  /** Issues and renews until the server goes away. */
  async function call(client: Client, caId: string): Promise<void> {
    for (;;) {
      const renewed = [...answered.keys()].at(-Math.ceil(random() * 40));
      const answer = await (renewed === undefined || random() < 0.6
        ? certificates.post({ ca_id: caId, auto_renew: random() < 0.5 }, client)
        : certificates.renew(renewed, {}, client)
      ).catch(() => undefined);
      if (answer === undefined) return;
      if (answer.status === 201) answered.set(answer.body.id, answer.body);
      else if (answer.status !== 409) strange.push(`${answer.status} ${JSON.stringify(answer.body)}`);
    }
  }

  const count = async (sql: string): Promise<number> =>
    (await server.sql(`select count(*)::int as n from ${sql}`))[0].n;
  const byItself = () => count("certificate where renewal_of is not null and created_by = 'system'");

  /** As if the killed one had been silent for minutes: for so long a queue takes its job for one that runs. */
  async function forgetJobs(): Promise<void> {
    await server.sql("delete from jobs.job where name = 'certificate.renew'");
    await server.sql("update jobs.queue set singletons_active = null where name = 'certificate.renew'");
  }

  /** Has certificates renewed by the server that is up. */
  async function letFallDue(): Promise<void> {
    const { core } = server.server;
    await server.sql(
      `update certificate set renew_at = now() - interval '1 second'
       where id in (select id from certificate where renew_at > now() limit $1)`,
      [due],
    );
    await core.jobs.enqueue(core.db.forkWithoutTenant(), "certificate.renew", {});
  }

  /** Nothing is half made, and nothing twice. */
  async function verify(): Promise<void> {
    expect(strange).to.deep.equal([]);
    for (const { id, certificate_pem } of answered.values()) {
      const { status, body } = await server.admin.rest("GET", certificatesPath(id));
      expect([status, body.certificate_pem], id).to.deep.equal([200, certificate_pem]);
    }
    const halves = await server.sql(`
      select 'no status' as what, c.id::text from certificate c where not exists (
        select from certificate_status s where s.ca_id = c.ca_id and s.serial_number = c.serial_number)
      union all select 'two successors', renewal_of::text from certificate group by renewal_of
        having renewal_of is not null and count(*) > 1
      union all select 'not told of its successor', c.id::text from certificate c
        join certificate n on n.renewal_of = c.id where c.renewed_by is distinct from n.id or c.renew_at is not null
      union all select 'successor of nothing', c.id::text from certificate c
        where c.renewed_by is not null and not exists (select from certificate n where n.id = c.renewed_by)
      union all select 'not recorded once', c.id::text from certificate c where 1 <> (
        select count(*) from audit_event a where a.outcome = 'success' and (
          (a.action = 'certificate.issue' and a.resource_id = c.id::text)
          or (a.action = 'certificate.renew' and a.resource_id = c.renewal_of::text
            and a.details::jsonb ->> 'renewed_by' = c.id::text)))`);
    expect(halves).to.deep.equal([]);
  }

  it("has kept what it answered, with a status for each certificate and at most one successor", async () => {
    const root = await authorities.root();
    // What has a status and is no certificate that somebody had issued: the authority's own, and its signer's.
    const others = await count("certificate_status");
    for (let at = 0; at < rounds * due; at += 50) {
      await Promise.all(
        Array.from({ length: 50 }, () => certificates.issued({ ca_id: root.id, auto_renew: true, profile: "client" })),
      );
    }
    let broken = 0;
    for (let round = 1; round <= rounds; round += 1) {
      await forgetJobs();
      const killed = new ServerProcess({ ...server.environment(), SERVICE_LOG_LEVEL: "info" });
      const calling: Promise<void>[] = [];
      try {
        const client = await server.login(server.clientId, server.clientSecret, await killed.ready());
        const before = await byItself();
        await letFallDue();
        for (let caller = 0; caller < callers; caller += 1) calling.push(call(client, root.id));
        await until(async () => (await byItself()) > before, 30_000);
        await sleep(random() * longestMs);
      } finally {
        await killed.kill();
        await Promise.all(calling);
      }

      if ((await count("certificate where renew_at <= now()")) > 0) broken += 1;
      await verify();
    }
    await renewalJob(server.server.core).run({});
    await verify();

    console.log(`seed ${seed}: ${answered.size} answered; of ${rounds} runs of renewals ${broken} were broken off`);
    expect(await count("certificate where renew_at <= now()")).to.equal(0);
    expect(await count("certificate_status")).to.equal(others + (await count("certificate")));
    expect(broken).to.be.above(0);
    expect(answered.size).to.be.above(rounds);
  });
});
