import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { pausePostgres, ServerOnOwnEngines, until } from "../../faults/own-engines.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { ask, issueFrom, probe, responderOf, revoke } from "./ocsp.ts";

/** The database is given up within 2 s; the rest is for a busy machine. */
const longestMs = 4000;
/** An answer from memory waits for 100 ms when it is known that the database is away. */
const knownMs = 1000;

describe("The OCSP responder while PostgreSQL", function () {
  this.timeout(60_000);
  const server = new ServerOnOwnEngines();
  const authorities = new Authorities(server);
  const responder = () => responderOf(server.server);
  let root: AuthorityRecord;
  let asked: AuthorityRecord;
  /** Nobody has asked about it before the outage. */
  let other: AuthorityRecord;
  before(() => server.start());
  before(async () => {
    // It is still starting otherwise, and this is not about a queue that loses its database then.
    await server.server.core.jobs.start([], false);
    root = await authorities.root();
    asked = await issueFrom(server, root);
  });
  after(() => server.stop());

  const remembered = () => ask(responder(), root, asked.serial_number, { nonce: null });
  /** What needs the database, what may come out of memory, and the probes; each with how long it took. */
  const each = async () => {
    const start = performance.now();
    const answers = await Promise.all([
      remembered(),
      ask(responder(), root, asked.serial_number),
      ask(responder(), root, other.serial_number, { nonce: null }),
    ]);
    return { said: answers.map(({ said }) => said), ms: performance.now() - start };
  };
  const isReady = async () => (await probe(responder(), "ready")).status === 200;

  const outages: [string, () => Promise<() => Promise<void>>][] = [
    [
      "is stopped",
      async () => {
        await server.postgres.stop();
        return () => server.startPostgres();
      },
    ],
    [
      "hangs",
      async () => {
        const resume = pausePostgres(server.postgres);
        return async () => resume();
      },
    ],
  ];
  for (const [what, begin] of outages) {
    it(`${what}: gives the answers that it remembers, tryLater else, is alive and not ready, and recovers by itself`, async () => {
      await until(isReady);
      other = await issueFrom(server, root);
      const before = await remembered();

      const end = await begin();
      await sleep(1050);
      const during = await each();
      const begun = performance.now();
      const again = await remembered();
      const againMs = performance.now() - begun;
      const [ready, health, live] = await Promise.all(
        ["ready", "health", "live"].map((name) => probe(responder(), name)),
      );
      const list = await fetch(`${responder()}/crl/${root.id}.crl`);
      await end();
      await until(isReady);
      const after = await each();

      expect(before.said).to.equal("good");
      expect(during.said).to.deep.equal(["good", "tryLater", "tryLater"]);
      expect(during.ms).to.be.below(longestMs);
      expect(again.said).to.equal("good");
      expect(againMs).to.be.below(knownMs);
      expect([ready?.status, health?.status, live?.status, list.status]).to.deep.equal([503, 503, 200, 503]);
      expect(health?.body.components).to.deep.equal({
        database: "disconnected",
        signing_key: "loaded",
        ca_certificates: 1,
      });
      expect(after.said).to.deep.equal(["good", "good", "good"]);
    });
  }

  for (const [what, begin] of outages) {
    it(`${what}: shows what is revoked right after its return`, async () => {
      await until(isReady);
      const certificate = await issueFrom(server, root);
      const remembered = () => ask(responder(), root, certificate.serial_number, { nonce: null });
      await remembered();
      const end = await begin();
      await remembered();
      await end();
      await until(isReady);

      await revoke(server, certificate);

      expect((await remembered()).said).to.equal("revoked");
    });
  }
});
