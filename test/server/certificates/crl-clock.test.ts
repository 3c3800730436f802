import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Authorities } from "./authorities.ts";
import { Crls } from "./crls.ts";

const server = useServer();
const authorities = new Authorities(server);
const crls = new Crls(server);

/** An authority with a revocation list of so many entries, and the row of that. */
async function listed(entries: number) {
  const { id } = await authorities.root();
  await crls.addRevoked(id, entries);
  await crls.rebuild(id);
  return { id, row: await crls.row(id) };
}

describe("cRLNumber", () => {
  it("is greater than that of all lists before also where the database was restored from an old copy", async () => {
    const { id, row } = await listed(1);
    const copy = { ...row };
    await sleep(1100);
    await crls.rebuild(id);
    const { number: lost } = await crls.row(id);

    await server.sql("delete from crl_part where ca_id = $1 and number > $2", [id, copy.number]);
    await server.sql("update crl set number = $2, sha256 = $3 where ca_id = $1", [id, copy.number, copy.sha256]);
    await sleep(1100);

    expect((await crls.rebuild(id)).number).to.be.above(lost);
  });

  it("goes on from the numbers of lists that were counted from 1", async () => {
    const { id } = await listed(1);
    await server.sql("update crl_part set number = 7 where ca_id = $1", [id]);
    await server.sql("update crl set number = 7 where ca_id = $1", [id]);

    const numbers = [7];
    for (let list = 0; list < 3; list += 1) numbers.push((await crls.rebuild(id)).number);

    expect(numbers).to.deep.equal([...new Set(numbers)].sort((one, other) => one - other));
    const kept = await server.sql("select distinct number::float8 from crl_part where ca_id = $1 order by 1", [id]);
    expect(kept.map(({ number }) => number)).to.deep.equal(numbers.slice(-3));
  });
});

describe("A clock that was a year ahead and has been set back", () => {
  /** As a list is that was built meanwhile. */
  const buildAhead = (id: string) =>
    server.sql(
      `update crl set number = number + 31536000, this_update = this_update + interval '1 year', next_update = next_update + interval '1 year',
         due_at = due_at + interval '1 year', claimed_until = claimed_until + interval '1 year' where ca_id = $1`,
      [id],
    );

  it("leaves no list that is not valid yet: it is built anew at once, with a greater number", async () => {
    const { id } = await listed(3);
    await server.sql("update crl_part set number = number + 31536000 where ca_id = $1", [id]);
    await buildAhead(id);
    const ahead = await crls.row(id);

    const builder = crls.builder();
    const row = await crls.builtAfter(ahead.number, id);
    await builder.stop();

    expect(row.number).to.equal(ahead.number + 1);
    expect(row.this_update).to.be.closeTo(Date.now(), 20_000);
  });

  it("takes nothing off the list that has not expired", async () => {
    const { id } = await listed(0);
    await crls.addRevoked(id, 5, "30 days");
    await buildAhead(id);

    await crls.rebuild(id);

    expect((await crls.row(id)).entries).to.equal(5);
  });

  it("keeps nobody away by the claim of a builder that died meanwhile", async () => {
    const { id } = await listed(2);
    await server.sql(
      `update crl set claim_id = gen_random_uuid(), claimed_until = now() + interval '1 year', due_at = now() + interval '1 year'
       where ca_id = $1`,
      [id],
    );
    const { number } = await crls.row(id);

    const builder = crls.builder();
    await crls.builtAfter(number, id);
    await builder.stop();
  });

  it("takes no lists for ended of an authority that has not", async () => {
    const { id } = await listed(0);
    const { number } = await crls.row(id);
    await server.sql("update crl set due_at = 'infinity', claimed_until = null where ca_id = $1", [id]);

    const builder = crls.builder();
    await crls.builtAfter(number, id);
    await builder.stop();
  });
});
