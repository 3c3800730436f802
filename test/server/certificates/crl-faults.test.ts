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
  (await server.sql("select distinct number::int from crl_part where ca_id = $1 order by 1", [id])).map(
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
      for (let at = 1; ; at += 1) {
        const before = await crls.row(id);
        await crls.makeDue(id);
        const dying = interferingWith(db, { [when]: async (count: number) => (count === at ? crash() : undefined) });
        const outcome = await crls.build(dying).catch((error: unknown) => error);
        if (!(outcome instanceof Crash)) break;

        const left = await crls.row(id);
        expect(left.number, `statement ${at}`).to.be.within(before.number, before.number + 1);
        const { bytes } = await crls.download(id);
        expect(sha256(bytes), `statement ${at}`).to.equal(left.sha256);
        await crls.addRevoked(id, 1);
        const { number, entries } = await crls.rebuild(id);
        expect({ number, entries }, `statement ${at}`).to.deep.equal({
          number: left.number + 1,
          entries: before.entries + 1,
        });
        expect(sha256((await crls.download(id)).bytes)).to.equal((await crls.row(id)).sha256);
        expect(await partNumbers(id)).to.deep.equal([number - 2, number - 1, number].filter((each) => each > 0));
      }
      expect((await crls.row(id)).number, "so many statements").to.be.above(8);
    });
  }

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
    await crls.built(other.id, 1);
    while ((await crls.row(broken.id)).claimed_until === null || (await crls.row(broken.id)).claim_id !== null)
      await sleep(20);
    await builder.stop();

    const { number, claimed_until: until } = await crls.row(broken.id);
    expect(number).to.equal(0);
    expect((until ?? 0) - Date.now()).to.be.within(1000, 10_000);
    expect(server.log).to.include(`building the revocation list of ${broken.id} failed and will be tried again`);
    await server.sql("update certificate_authority set sealed_key = $2 where id = $1", [broken.id, sealedKey]);
    expect(await crls.rebuild(broken.id)).to.include({ number: 1 });
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
      const waiting = CrlClaim.next(db);
      await sleep(100);
      await client.query("commit");
      return [claimed, await waiting];
    });

    expect([first?.caId, second?.caId]).to.deep.equal([other.id, stuck.id]);
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
    await crls.built(root.id, 3);
    over.abort();
    await Promise.all(revoking);
    await builder.stop();

    expect((await crls.row(root.id)).claim_id).to.equal(null);
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
    const read = [slow.first];
    for (let next = await slow.pieces.next(); !next.done; next = await slow.pieces.next()) read.push(next.value);
    await crls.rebuild(id);
    const outcome = await tooSlow.pieces.next().catch((error: unknown) => error);

    expect(sha256(Buffer.concat(read))).to.equal(crl?.sha256);
    expect(outcome).to.be.an("error").with.property("message").that.includes("replaced");
  });
});
