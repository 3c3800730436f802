import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { answers, hangs } from "../../harness/trouble.ts";
import { type LinkRecord, Links, toWebhook } from "./links.ts";

const server = useServer();
const links = new Links(server);

const purge = (link: LinkRecord) => links.delete(link, "?purge=true");
const isThere = async ({ id }: LinkRecord) =>
  (await server.sql("select 1 from secret_link where id = $1", [id])).length === 1;
const actionsOf = async ({ id }: LinkRecord) => {
  const rows = await server.sql(
    "select action, outcome from audit_event where resource_id = $1 and resource_type = 'link' order by occurred_at, id",
    [id],
  );
  return rows.map(({ action, outcome }) => `${action} ${outcome}`).slice(1);
};

describe("Deleting a link", () => {
  links.useWorker(50);

  it("leaves at the place what was written there", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);

    expect((await links.delete(link)).status).to.equal(204);

    expect(place.requests.map(({ body }) => body.event)).to.deep.equal(["secret.sync"]);
    expect(await actionsOf(link)).to.deep.equal(["link.delete success"]);
  });

  it("with a purge removes it there first", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url(), { credentials: { signing_secret: "s" } }));
    await links.synced(link);

    expect((await purge(link)).status).to.equal(204);

    expect(place.requests.map(({ body }) => body.event)).to.deep.equal(["secret.sync", "secret.purge"]);
    expect(place.requests[1]?.headers).to.have.property("x-holdfast-signature");
    expect(await isThere(link)).to.equal(false);
    expect(await actionsOf(link)).to.deep.equal(["link.purge success", "link.delete success"]);
  });

  it("with a purge that fails answers 503 and why, and keeps the link as it was", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    const synced = await links.synced(link);
    place.behave(({ body }) => (body.event === "secret.purge" ? answers(403, "v1 is secret") : undefined));

    const { status, body } = await purge(link);

    expect(status).to.equal(503);
    expect(body.error).to.include({
      code: "SERVICE_UNAVAILABLE",
      message: "the purge failed: the webhook answered 403; the link is kept",
    });
    expect(await links.get(link)).to.deep.equal(synced);
    expect(await actionsOf(link)).to.deep.equal(["link.purge success", "link.delete failure"]);
    await links.write(link, "v2");
    await links.synced(link, 2);
  });

  it("with a purge that may have removed something has it written again", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);
    place.behave(({ body }) => (body.event === "secret.purge" ? answers(500) : undefined));

    expect((await purge(link)).status).to.equal(503);

    await place.received(3);
    expect(place.requests.map(({ body }) => body.event)).to.deep.equal(["secret.sync", "secret.purge", "secret.sync"]);
  });

  it("with a purge that fails leaves one that is off as it is, and one that has failed waits as before", async () => {
    const place = await links.receiver();
    place.behave(() => answers(500));
    const failed = await links.of(toWebhook(place.url()));
    const before = await links.failed(failed);
    const due = async () =>
      (await server.sql("select due_at from secret_link where id = $1", [failed.id]))[0].due_at.toISOString();
    const dueBefore = await due();
    const off = await links.of(toWebhook(place.url("/off"), { sync_enabled: false }));

    expect((await purge(failed)).status).to.equal(503);
    expect((await purge(off)).status).to.equal(503);

    expect(await links.get(failed)).to.deep.equal(before);
    expect(await due()).to.equal(dueBefore);
    expect(await links.get(off)).to.deep.equal(off);
  });

  it("with a purge is not done while the link is written", async () => {
    const place = await links.receiver();
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    place.behave(() => release);
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);

    const { status } = await purge(link);
    resolve(undefined);

    expect(status).to.equal(409);
    await links.synced(link);
    expect((await purge(link)).status).to.equal(204);
  });

  it("with a purge keeps workers away until it has ended, and has written again what changed if it fails", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);
    const { promise: release, resolve } = Promise.withResolvers<ReturnType<typeof answers>>();
    place.behave(({ body }) => (body.event === "secret.purge" ? release : undefined));
    const purging = purge(link);
    await place.received(2);

    await links.write(link, "v2");
    await server.admin.rest("POST", `/api/v1/secrets/${link.secret_id}/force-sync`, {});
    await sleep(200);
    expect(place.requests).to.have.length(2);
    resolve(answers(500));

    expect((await purging).status).to.equal(503);
    await links.synced(link, 2);
    expect(place.mostAtOnce).to.equal(1);
  });

  it("with a purge that nobody lived to end leaves a link that goes on", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);
    place.behave(() => hangs({ done: false }));
    const dying = await server.startReplica();
    const client = await server.login(server.clientId, server.clientSecret, `http://127.0.0.1:${dying.address?.port}`);
    const purging = client
      .rest("DELETE", `/api/v1/secrets/${link.secret_id}/links/${link.id}?purge=true`)
      .catch(() => undefined);
    await place.received(2);
    // It loses its database, so that it can write nothing down any more.
    await dying.core.db.close();
    await dying.stop(0).catch(() => {});
    await purging;
    place.behave();
    await links.write(link, "v2");

    await links.letTimePass(link);

    await links.synced(link, 2);
  });

  it("with a purge removes nothing of a secret that is gone, and says that the link is gone", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    place.behave(() => release);
    const purging = purge(link);
    await place.received(2);

    await server.admin.rest("DELETE", `/api/v1/secrets/${link.secret_id}/permanent`);
    resolve(undefined);

    expect((await purging).status).to.equal(204);
  });
});
