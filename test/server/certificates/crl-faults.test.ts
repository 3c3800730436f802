import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { CrlClaim } from "../../../src/server/certificates/crl-claim.ts";
import { readCrl } from "../../../src/server/certificates/crl-store.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { Crls, interferingWith } from "./crls.ts";

const server = useServer();
const authorities = new Authorities(server);
const crls = new Crls(server);

const partNumbers = async (id: string): Promise<number[]> =>
  (await server.sql("select distinct number::float8 from crl_part where ca_id = $1 order by 1", [id])).map(
    ({ number }) => number,
  );

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** A connection on which a test has a transaction of its own open. */
async function inOwnTransaction<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(server.databaseUrl);
  await client.connect();
  try {
    await client.query("begin");
    return await work(client);
  } finally {
    await client.end();
  }
}

/** What every revocation does at its end. */
const request = (client: pg.Client, { id }: AuthorityRecord) =>
  client.query("update crl set due_at = now() where ca_id = $1", [id]);

class Crash extends Error {}
const crash = async () => {
  throw new Crash();
};

describe("A builder that dies", () => {
  for (const when of ["before", "after"] as const) {
    it(`${when} any of its statements leaves the old list or the new one, whole, and its successor repairs the rest`, async () => {
      const { db } = server.server.core;
      const { id } = await authorities.root();
      await crls.addRevoked(id, 30);
      await crls.rebuild(id);
      let died = 0;
      for (let at = 1; ; at += 1) {
        const before = await crls.row(id);
        await crls.makeDue(id);
        const dying = interferingWith(db, { [when]: async (count: number) => (count === at ? crash() : undefined) });
        const outcome = await crls.build(dying).catch((error: unknown) => error);
        if (!(outcome instanceof Crash)) break;

        died += 1;
        const left = await crls.row(id);
        expect(left.number, `statement ${at}`).to.be.at.least(before.number);
        const { bytes } = await crls.download(id);
        expect(sha256(bytes), `statement ${at}`).to.equal(left.sha256);
        await crls.addRevoked(id, 1);
        const kept = (await partNumbers(id)).filter((each) => each <= left.number).slice(-2);
        const { number, entries } = await crls.rebuild(id);
        expect(number, `statement ${at}`).to.be.above(left.number);
        expect(entries, `statement ${at}`).to.equal(before.entries + 1);
        expect(sha256((await crls.download(id)).bytes)).to.equal((await crls.row(id)).sha256);
        expect(await partNumbers(id)).to.deep.equal([...kept, number]);
      }
      expect(died, "so many statements").to.be.above(5);
    });
  }

  it("because the authority is gone leaves nothing of it", async () => {
    const { db } = server.server.core;
    for (let at = 2; ; at += 1) {
      const { id } = await authorities.root();
      await crls.addRevoked(id, 30);
      await crls.makeDue(id);
      let isGone = false;
      const losing = interferingWith(db, {
        async before(count) {
          if (count !== at) return;
          isGone = true;
          await server.sql("delete from certificate_authority where id = $1", [id]);
        },
      });
      const outcome = await crls.build(losing).catch((error: unknown) => error);
      if (!isGone) break;

      expect(outcome, `statement ${at}`)
        .to.be.an("error")
        .with.property("message")
        .that.matches(/no such|somebody else|replaced/);
      expect(await partNumbers(id)).to.deep.equal([]);
    }
  });

  it("because it is to stop gives the list back, and the next one begins at once", async () => {
    const { id } = await authorities.root();
    await crls.addRevoked(id, 20_000);
    await crls.makeDue(id);

    const builder = crls.builder();
    while ((await partNumbers(id)).length === 0) await sleep(5);
    await builder.stop();

    expect(await crls.row(id)).to.include({ number: 0, claim_id: null });
    expect((await crls.build()).entries).to.equal(20_000);
  });

  it("of what it cannot open leaves the list to be tried again a while later, and builds others meanwhile", async () => {
    const [broken, other] = [await authorities.root(), await authorities.root()];
    await server.sql("update crl set due_at = now() + interval '1 day' where ca_id not in ($1, $2)", [
      broken.id,
      other.id,
    ]);
    const [{ sealed_key: sealedKey }] = await server.sql("select sealed_key from certificate_authority where id = $1", [
      broken.id,
    ]);
    await server.sql("update certificate_authority set sealed_key = '\\x00' where id = $1", [broken.id]);

    const builder = crls.builder();
    await crls.builtAfter(0, other.id);
    while ((await crls.row(broken.id)).claimed_until === null || (await crls.row(broken.id)).claim_id !== null)
      await sleep(20);
    await builder.stop();

    const { number, claimed_until: until } = await crls.row(broken.id);
    expect(number).to.equal(0);
    expect((until ?? 0) - Date.now()).to.be.within(1000, 10_000);
    expect(server.log).to.include(`building the revocation list of ${broken.id} failed and will be tried again`);
    await server.sql("update certificate_authority set sealed_key = $2 where id = $1", [broken.id, sealedKey]);
    expect((await crls.rebuild(broken.id)).number).to.be.above(0);
  });
});

describe("A revocation", () => {
  it("does not wait for a build that is under way, and is in the next list if it came too late", async () => {
    const { db } = server.server.core;
    const root = await authorities.root();
    const [early, late] = [await authorities.below(root), await authorities.below(root)];
    await authorities.revoke(early.id);
    await crls.makeDue(root.id);
    let revokedIn = 0;
    const amid = interferingWith(db, {
      async after(_, text) {
        if (!text.includes("certificate_status")) return;
        const beganAt = performance.now();
        expect(await authorities.revoke(late.id)).to.include({ status: 200 });
        revokedIn = performance.now() - beganAt;
      },
    });

    const first = await crls.build(amid);
    const row = await crls.row(root.id);
    await crls.rebuild(root.id);

    expect(revokedIn).to.be.within(1, 2000);
    expect(first.entries).to.equal(1);
    expect(row.due_at).to.be.at.most(Date.now());
    expect(await crls.serials(root.id)).to.have.members([early.serial_number, late.serial_number]);
  });

  it("that is about to commit when a list is published is waited for, so that the next list is due", async () => {
    const { db } = server.server.core;
    const root = await authorities.root();
    await crls.makeDue(root.id);

    await inOwnTransaction(async (client) => {
      const publishing = crls.build(
        interferingWith(db, {
          before: async (_, text) => {
            if (text.includes("published")) await request(client, root);
          },
        }),
      );
      while ((await crls.row(root.id)).claim_id === null) await sleep(5);
      await sleep(300);
      expect((await crls.row(root.id)).number, "not yet").to.equal(0);
      await client.query("commit");
      await publishing;
    });

    expect((await crls.row(root.id)).due_at).to.be.at.most(Date.now());
  });

  it("that does not end keeps the lists of other authorities from nothing, and its own is built once it has", async () => {
    const { db } = server.server.core;
    const [stuck, other] = [await authorities.root(), await authorities.root()];
    await crls.makeDue(other.id);
    await server.sql("update crl set due_at = now() - interval '1 hour' where ca_id = $1", [stuck.id]);

    const [first, second] = await inOwnTransaction(async (client) => {
      await request(client, stuck);
      const claimed = await CrlClaim.next(db);
      const waiting = CrlClaim.nextInLine(db);
      await sleep(100);
      await client.query("commit");
      return [claimed, await waiting];
    });

    expect([first?.caId, second?.caId]).to.deep.equal([other.id, stuck.id]);
  });

  it("that does not end keeps no more than one connection of a server waiting", async () => {
    const stuck = await authorities.root();
    await server.sql("update crl set due_at = now() + interval '1 day' where ca_id <> $1", [stuck.id]);
    let most = 0;

    await inOwnTransaction(async (client) => {
      await request(client, stuck);
      const builder = crls.builder();
      for (let look = 0; look < 30; look += 1) {
        await sleep(50);
        const [{ waiting }] = await server.sql(
          "select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        );
        most = Math.max(most, waiting);
      }
      await client.query("commit");
      await builder.stop();
    });

    expect(most).to.equal(1);
  });

  it("after the other without pause keeps no list from being built", async () => {
    const root = await authorities.root();
    await server.sql("update crl set due_at = now() + interval '1 day' where ca_id <> $1", [root.id]);
    const over = new AbortController();
    const revoking = Array.from({ length: 4 }, async () => {
      const client = new pg.Client(server.databaseUrl);
      await client.connect();
      while (!over.signal.aborted) {
        await client.query("begin");
        await request(client, root);
        await sleep(10);
        await client.query("commit");
      }
      await client.end();
    });

    const builder = crls.builder();
    let number = 0;
    const updates = new Set<number | null>();
    for (let list = 0; list < 3; list += 1) {
      const row = await crls.builtAfter(number, root.id);
      updates.add(row.this_update);
      ({ number } = row);
    }
    over.abort();
    await Promise.all(revoking);
    await builder.stop();

    expect((await crls.row(root.id)).claim_id).to.equal(null);
    expect(updates, "no two of the same second").to.have.property("size", 3);
  });

  it("after the other does not have lists built without pause: each rests for as long as it took", async () => {
    const { db } = server.server.core;
    const { id } = await authorities.root();
    await crls.makeDue(id);
    const slow = interferingWith(db, { before: (_, text) => sleep(text.includes("certificate_status") ? 1000 : 0) });

    await crls.build(slow);
    await server.sql("update crl set due_at = now() where ca_id = $1", [id]);
    const [{ rest }] = await server.sql(
      "select extract(epoch from claimed_until - now())::float8 as rest from crl where ca_id = $1",
      [id],
    );

    expect(rest).to.be.within(0.5, 10);
    expect(await CrlClaim.next(db)).to.equal(undefined);
  });
});

/** What is left to read. */
async function restOf(pieces: AsyncIterator<Uint8Array>): Promise<Buffer> {
  const read = [];
  for (let next = await pieces.next(); !next.done; next = await pieces.next()) read.push(next.value);
  return Buffer.concat(read);
}

describe("Whoever reads a list", () => {
  it("gets it whole while newer ones take its place, and is told when it is gone amid", async () => {
    const { db } = server.server.core;
    const { id } = await authorities.root();
    await crls.addRevoked(id, 9000);
    await crls.rebuild(id);
    const crl = await readCrl(db, id);
    const open = async () => {
      const pieces = crl?.read()[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
      return { pieces, first: (await pieces.next()).value as Uint8Array };
    };
    const [slow, tooSlow] = [await open(), await open()];

    for (let newer = 0; newer < 2; newer += 1) {
      await crls.addRevoked(id, 100);
      await crls.rebuild(id);
    }
    const read = [slow.first, await restOf(slow.pieces)];
    await crls.rebuild(id);
    const outcome = await restOf(tooSlow.pieces).catch((error: unknown) => error);

    expect(sha256(Buffer.concat(read))).to.equal(crl?.sha256);
    expect(outcome).to.be.an("error").with.property("message").that.includes("replaced");
  });

  it("gets no list that lacks a part of those that are being removed", async () => {
    const { db } = server.server.core;
    const { id } = await authorities.root();
    await crls.addRevoked(id, 5000);
    await crls.rebuild(id);
    const crl = await readCrl(db, id);

    for (const position of [3, 2]) {
      await server.sql("delete from crl_part where ca_id = $1 and position = $2", [id, position]);
      const pieces = crl?.read()[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
      const outcome = await restOf(pieces).catch((error: unknown) => error);
      expect(outcome, `without ${position}`).to.be.an("error").with.property("message").that.includes("replaced");
    }
  });

  it("has as long as a MiB in a second takes, until each of the two lists after it, whatever is revoked meanwhile", async () => {
    const { id } = await authorities.root();
    await crls.addRevoked(id, 40_000);

    const { size } = await crls.rebuild(id);

    const [{ rest }] = await server.sql(
      "select extract(epoch from claimed_until - now())::float8 as rest from crl where ca_id = $1",
      [id],
    );
    expect(rest).to.be.within(size / 2 ** 20 - 0.5, 300);
  });
});
