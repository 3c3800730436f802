import { expect } from "chai";
import { claimDue } from "../../../src/server/links/claims.ts";
import { Reach } from "../../../src/server/links/reach.ts";
import { useServer } from "../../harness/server.ts";
import { answers } from "../../harness/trouble.ts";
import { type LinkRecord, Links, toWebhook } from "./links.ts";

const server = useServer();
const links = new Links(server);

/** Links of one secret to so many paths of a host. */
async function manyAt(url: (path: string) => string, count: number): Promise<LinkRecord[]> {
  const first = await links.of(toWebhook(url("/0")));
  const made = [first];
  for (let index = 1; index < count; index += 1)
    made.push((await links.post(first.secret_id, toWebhook(url(`/${index}`)))).body);
  return made;
}

describe("Several replicas", () => {
  it("write each link once", async () => {
    const place = await links.receiver();
    const made = await manyAt((path) => place.url(path), 30);
    const workers = [links.work(20), links.work(20), links.work(20)];

    await Promise.all(made.map((link) => links.synced(link)));
    await Promise.all(workers.map((worker) => worker.stop()));

    expect(place.requests.map(({ path }) => path).sort()).to.deep.equal(made.map((_, index) => `/${index}`).sort());
  });

  it("write to one host five links at a time, all of them together, and to others meanwhile", async () => {
    const [slow, other] = [await links.receiver(), await links.receiver()];
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    slow.behave(() => release);
    const made = await manyAt((path) => slow.url(path), 20);
    const workers = [links.work(20), links.work(20), links.work(20)];
    while (slow.requests.length < 5) await new Promise((next) => setTimeout(next, 10));

    const elsewhere = await links.of(toWebhook(other.url()));
    await links.synced(elsewhere);
    expect(slow.requests).to.have.length(5);
    resolve(undefined);
    await Promise.all(made.map((link) => links.synced(link)));

    expect(slow.mostAtOnce).to.equal(5);
    await Promise.all(workers.map((worker) => worker.stop()));
  });

  it("go on where one has died amid a write, once its time is over, and record that it has", async () => {
    const { core } = server.server;
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    // It has brought the value to its place, and dies before it can note that.
    const { links: claimed } = await claimDue(core, "", 1);
    for (const each of claimed) await new Reach(core).write(each, new AbortController().signal);
    await links.write(link, "v2");
    const worker = links.work(20);
    const other = await links.of(toWebhook(place.url("/other")));
    await links.synced(other);
    expect(await links.get(link)).to.include({ status: "syncing", version: null });
    expect(await place.received(1)).to.have.length(1);

    await links.letTimePass(link);
    await links.synced(link, 2);
    await worker.stop();

    expect((await place.received(2)).map(({ body }) => body.value)).to.deep.equal(["v1", "v2"]);
    expect(await links.attempts(link)).to.deep.equal(["failure 1", "success 2"]);
  });

  it("do not count what a late one says that had its claim taken away, but record it", async () => {
    const place = await links.receiver();
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    place.behave(() => release);
    const link = await links.of(toWebhook(place.url()));
    const late = links.work(20);
    await place.received(1);
    await server.sql("update secret_link set claim_id = gen_random_uuid(), claimed_version = null where id = $1", [
      link.id,
    ]);

    resolve(undefined);
    while ((await links.attempts(link)).length === 0) await new Promise((next) => setTimeout(next, 10));
    await late.stop();

    expect(await links.get(link)).to.include({ status: "syncing", version: null });
    expect(await links.attempts(link)).to.deep.equal(["success 1"]);
  });
});

describe("A host with much to do", () => {
  it("keeps nobody waiting: of each claim every host gets something, and the next one goes on behind it", async () => {
    await server.sql("update secret_link set due_at = null");
    const { secret_id } = await links.of(toWebhook("https://unused.example.com", { sync_enabled: false }));
    const add = (host: string, count: number) =>
      server.sql(
        `insert into secret_link (organization_id, secret_id, integration, config, place, host, due_at, created_by)
         select organization_id, id, 'webhook', '{}', sha256(($2 || n)::bytea), $2, now() - interval '1 hour', 'system'
         from secret, generate_series(1, $3) n where id = $1`,
        [secret_id, host, count],
      );
    await add("a.example.com", 10_000);
    for (const host of ["b", "c", "d", "e", "f"]) await add(`${host}.example.com`, 1);
    const hostsOf = async (ids: readonly string[]) =>
      (await server.sql("select host from secret_link where id = any($1) order by host", [ids])).map(
        ({ host }) => host[0],
      );

    const first = await claimDue(server.server.core, "", 4);
    const second = await claimDue(server.server.core, first.next ?? "", 4);
    const third = await claimDue(server.server.core, "", 100);
    const fourth = await claimDue(server.server.core, "", 100);

    expect(await hostsOf(first.links.map(({ id }) => id))).to.deep.equal(["a", "b", "c", "d"]);
    expect(await hostsOf(second.links.map(({ id }) => id))).to.deep.equal(["e", "f"]);
    expect(await hostsOf(third.links.map(({ id }) => id))).to.deep.equal(["a", "a", "a", "a"]);
    expect(fourth.links).to.deep.equal([]);
  });
});

describe("A replica that cannot reach its database for a while", () => {
  it("goes on by itself when it can", async () => {
    const place = await links.receiver();
    place.behave(() => answers(500));
    const replica = await server.startReplica({}, ["jobs"]);
    const link = await links.of(toWebhook(place.url()));
    await links.failed(link);
    place.behave();

    await server.sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );
    await links.write(link, "v2").catch(() => links.write(link, "v2"));

    await links.once(link, "synced", ({ status }) => status === "synced");
    await replica.stop();
  });
});
