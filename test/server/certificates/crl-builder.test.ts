import { createHash } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { CrlBuilder } from "../../../src/server/certificates/crl-builder.ts";
import { ClaimLost, CrlClaim } from "../../../src/server/certificates/crl-claim.ts";
import { isMissing } from "../../harness/installed.ts";
import { eventually } from "../../harness/program.ts";
import { useServer } from "../../harness/server.ts";
import { Authorities, type AuthorityRecord } from "./authorities.ts";
import { Crls, interferingWith } from "./crls.ts";

const server = useServer();
const authorities = new Authorities(server);
const crls = new Crls(server);
const dayMs = 86_400_000;

/** An authority whose first list is built. */
async function listed(fields = {}): Promise<AuthorityRecord> {
  const authority = await authorities.root(fields);
  await crls.rebuild(authority.id);
  return authority;
}

/** Lets a minute pass, as far as lists are concerned. */
const letTimePass = (id: string) =>
  server.sql(
    `update crl set due_at = due_at - interval '1 minute', claimed_until = claimed_until - interval '1 minute'
     where ca_id = $1`,
    [id],
  );

describe("The revocation list of an authority", () => {
  it("is built when the authority has just been created, empty, and is good for a week", async () => {
    const { id } = await authorities.root();
    const builder = crls.builder();

    const row = await crls.builtAfter(0, id);
    await builder.stop();

    const crl = await crls.parsed(id);
    expect(crl.entries).to.deep.equal([]);
    expect(crl.thisUpdate.getTime()).to.equal(row.this_update);
    expect((crl.nextUpdate?.getTime() ?? 0) - crl.thisUpdate.getTime()).to.equal(7 * dayMs);
    expect(crl.thisUpdate.getTime()).to.be.closeTo(Date.now(), 10_000);
  });

  it("is built anew within seconds of a revocation, with its time and reason, by a server that runs jobs", async () => {
    const root = await authorities.root();
    const [child, other] = [await authorities.below(root), await authorities.below(root)];
    const replica = await server.startReplica({}, ["jobs"]);
    const { number } = await crls.builtAfter(0, root.id);

    const beganAt = performance.now();
    const { body: revoked } = await authorities.revoke(child.id, { reason: "ca_compromise" });
    const row = await crls.builtAfter(number, root.id);

    expect(performance.now() - beganAt).to.be.below(10_000);
    const crl = await crls.parsed(root.id);
    expect(crl.entries).to.have.length(1);
    expect(crl.entries[0]).to.deep.include({ serialNumber: child.serial_number, reason: 2 });
    expect(crl.entries[0]?.revocationDate.getTime()).to.equal(Math.floor(Date.parse(revoked.revoked_at) / 1000) * 1000);
    expect(row).to.include({ entries: 1, claim_id: null });
    expect(await crls.serials(root.id)).not.to.include(other.serial_number);
    await replica.stop(500);
  });

  it("is built anew a day after the one before, with a greater number", async () => {
    const { id } = await listed();
    const first = await crls.row(id);
    expect(first.due_at - (first.this_update ?? 0)).to.equal(dayMs);
    expect(await CrlClaim.next(server.server.core.db), "not before").to.equal(undefined);

    await server.sql("update crl set due_at = due_at - interval '24 hours 1 second' where ca_id = $1", [id]);
    await letTimePass(id);
    await crls.build();

    const second = await crls.row(id);
    expect(second.number).to.be.above(first.number);
    expect((await crls.parsed(id)).thisUpdate.getTime()).to.equal(second.this_update);
  });

  it("goes on when the authority is disabled or revoked, with what it revoked itself and nothing else", async () => {
    const root = await authorities.root();
    const [revoked, issuing] = [await authorities.below(root), await authorities.below(root, { max_path_length: 0 })];
    await authorities.put(issuing.id, { status: "disabled" });
    await crls.addRevoked(issuing.id, 3);
    await authorities.revoke(revoked.id);

    await crls.rebuild(issuing.id);
    expect((await crls.parsed(issuing.id)).entries).to.have.length(3);
    await authorities.revoke(root.id, { reason: "key_compromise" });
    for (const { id } of [root, issuing]) await crls.rebuild(id);

    expect(await crls.serials(root.id)).to.have.members(
      [revoked, issuing, root].map(({ serial_number }) => serial_number),
    );
    expect((await crls.parsed(issuing.id)).entries).to.have.length(3);
  });

  it("is not built any more when the authority has expired, and keeps no builder busy", async () => {
    const { id } = await listed();
    const { number } = await crls.row(id);
    await authorities.expire(id);
    await crls.makeDue(id);

    const builder = crls.builder();
    const { due_at: dueAt } = await eventually("the end of its lists", async () => {
      const row = await crls.row(id);
      return row.claim_id === null && row.due_at > Date.now() ? row : undefined;
    });
    await builder.stop();

    expect(dueAt - Date.now()).to.be.closeTo(dayMs, 10_000);
    expect(await crls.row(id)).to.include({ number, claim_id: null });
    expect((await crls.parsed(id)).entries).to.deep.equal([]);
  });

  it("has a certificate that expired until one list a day after its end, and then no more (RFC 5280 section 5)", async () => {
    const { id } = await listed();
    await server.sql("update crl set this_update = now() - interval '1 hour' where ca_id = $1", [id]);
    await crls.addRevoked(id, 2, "-24 hours -30 minutes");
    await crls.addRevoked(id, 1, "-26 hours");
    await crls.addRevoked(id, 4, "-1 hour");

    const counts = [];
    for (let list = 0; list < 3; list += 1) counts.push((await crls.rebuild(id)).entries);

    expect(counts).to.deep.equal([6, 4, 4]);
  });

  it("is of any length: verified by openssl where it takes several parts, each entry once", async function () {
    if (isMissing("openssl")) this.skip();
    const root = await authorities.root({ key_algorithm: "RSA", key_size: 2048 });
    await crls.addRevoked(root.id, 12_345);

    const { entries, size } = await crls.rebuild(root.id);

    const { bytes } = await crls.download(root.id);
    const { verified, text } = crls.openssl(bytes, root);
    expect(verified).to.equal(true);
    expect(new Set(text.match(/Serial Number: [0-9A-F]{40}/g))).to.have.property("size", 12_345);
    expect([entries, size, bytes.length]).to.deep.equal([12_345, bytes.length, bytes.length]);
    const [parts] = await server.sql("select count(*)::int from crl_part where ca_id = $1", [root.id]);
    expect(parts.count).to.be.above(10);
  });
});

describe("Builders on several replicas", () => {
  it("build each list once", async () => {
    await server.sql("update crl set due_at = now() + interval '1 day'");
    const made = [];
    for (let count = 0; count < 12; count += 1) made.push(await authorities.root());
    const builders = [crls.builder(), crls.builder(), crls.builder()];

    const numbers = await Promise.all(made.map(async ({ id }) => (await crls.builtAfter(0, id)).number));
    await sleep(1200);
    await Promise.all(builders.map((builder) => builder.stop()));

    expect(await Promise.all(made.map(async ({ id }) => (await crls.row(id)).number))).to.deep.equal(numbers);
  });

  it("build short lists also while there are more long ones than they build at a time", async () => {
    const { core } = server.server;
    await server.sql("update crl set due_at = now() + interval '1 day'");
    const long: unknown[] = [];
    for (let count = 0; count < 5; count += 1) long.push((await authorities.root()).id);
    await server.sql("update crl set entries = 60000, due_at = now() - interval '1 hour' where ca_id = any($1)", [
      long,
    ]);
    const short = await authorities.root();
    const over = new AbortController();
    const db = interferingWith(core.db, {
      // The builds of long lists take as long as the test.
      before: async (_, text, [caId]) => {
        if (text.includes("certificate_status") && long.includes(caId)) await once(over.signal, "abort");
      },
    });
    const builder = new CrlBuilder({ ...core, db: db as typeof core.db }, 20);

    builder.start();
    const row = await crls.builtAfter(0, short.id);
    over.abort();
    await builder.stop();

    expect(row.entries).to.equal(0);
  });

  it("leave alone what another one builds, until it has said nothing for half a minute", async () => {
    const { db } = server.server.core;
    const { id } = await listed();
    const { number: lastNumber } = await crls.row(id);
    await crls.makeDue(id);

    const lost = await CrlClaim.next(db);
    const meanwhile = [await CrlClaim.next(db), await CrlClaim.nextInLine(db)];
    await letTimePass(id);
    const { number } = await crls.build();

    expect(lost).to.include({ caId: id, lastNumber });
    expect(meanwhile).to.deep.equal([undefined, undefined]);
    expect(number).to.be.above(lastNumber);
  });

  it("keep one that was away from spoiling what was built in its place", async () => {
    const { db } = server.server.core;
    const { id } = await listed();
    await crls.addRevoked(id, 4100);
    await crls.makeDue(id);
    // Away before each of its statements in turn, for as long as another one builds the list.
    let spoiled = 0;
    for (let at = 2; ; at += 1) {
      let isAway = false;
      const late = interferingWith(db, {
        async before(count) {
          if (count !== at) return;
          isAway = true;
          await letTimePass(id);
          await crls.build();
        },
      });
      const outcome = await crls.build(late).catch((error: unknown) => error);
      if (!isAway) break;

      expect(outcome, `away before statement ${at}`).to.be.instanceOf(ClaimLost);
      const row = await crls.row(id);
      const { bytes } = await crls.download(id);
      expect(createHash("sha256").update(bytes).digest("hex")).to.equal(row.sha256);
      expect(bytes).to.have.length(row.size);
      await crls.makeDue(id);
      spoiled += 1;
    }
    expect(spoiled, "so many statements").to.be.above(5);
  });
});
