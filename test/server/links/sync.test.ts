import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import type { Receiver } from "../../harness/receiver.ts";
import { useServer } from "../../harness/server.ts";
import { answers, breaksOff, hangs, redirectsTo } from "../../harness/trouble.ts";
import { type LinkRecord, Links, linksPath, toWebhook } from "./links.ts";

const server = useServer();
const links = new Links(server);

/** For as long as no worker looks by itself. */
const hardlyEver = 600_000;

const valuesAt = (receiver: Receiver, path = "/hook") =>
  receiver.requests.filter((request) => request.path === path).map(({ body }) => body.value);

/** How long a failed link waits, in seconds. */
async function pauseOf({ id }: LinkRecord): Promise<number> {
  const [{ pause }] = await server.sql(
    "select extract(epoch from due_at - last_error_at)::float8 as pause from secret_link where id = $1",
    [id],
  );
  return pause;
}

describe("A value", () => {
  links.useWorker(hardlyEver);

  it("is brought to its place when the link is made, when the secret has a new version, and when it is forced", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);
    await links.synced(link);

    await links.write(link, "v2");
    await place.received(2);
    await links.synced(link, 2);
    await server.admin.rest("POST", `/api/v1/secrets/${link.secret_id}/rollback`, { version: 1 });
    await place.received(3);
    await links.synced(link, 3);
    await server.admin.rest("POST", `/api/v1/secrets/${link.secret_id}/force-sync`, {});
    await place.received(4);

    expect(valuesAt(place)).to.deep.equal(["v1", "v2", "v1", "v1"]);
  });

  it("is sent with what it is of, in the link's environment or else the secret's", async () => {
    const place = await links.receiver();
    const own = await links.of(toWebhook(place.url("/own"), { environment: "eu" }), { environment: "production" });
    const { body: follows } = await links.post(own.secret_id, toWebhook(place.url("/follows")));

    const [first] = await place.received(1, "/own");
    const [second] = await place.received(1, "/follows");

    const { body: secret } = await server.admin.rest("GET", `/api/v1/secrets/${own.secret_id}?view=metadata`);
    const about = { event: "secret.sync", secret_id: secret.id, key: secret.key, version: 1, value: "v1" };
    expect(first?.body).to.deep.equal({ ...about, environment: "eu", link_id: own.id });
    expect(second?.body).to.deep.equal({ ...about, environment: "production", link_id: follows.id });
  });

  it("is sent with the credentials of the link", async () => {
    const place = await links.receiver();
    const headers = { authorization: "Bearer b" };
    await links.of(toWebhook(place.url(), { credentials: { signing_secret: "s", headers } }));

    const [request] = await place.received(1);

    expect(request?.headers).to.include(headers).and.to.have.property("x-holdfast-signature");
  });

  it("is brought only as its last version when there are several in a row", async () => {
    const place = await links.receiver();
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    place.behave(() => release);
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);
    for (const value of ["v2", "v3", "v4", "v5"]) await links.write(link, value);
    expect(await links.get(link)).to.include({ status: "syncing", version: null });

    resolve(undefined);
    await links.synced(link, 5);

    expect(valuesAt(place)).to.deep.equal(["v1", "v5"]);
    expect(await links.attempts(link)).to.deep.equal(["success 1", "success 5"]);
  });

  it("is brought also after the connection was lost over which changes are heard of", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);

    const lost = await server.sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast-sync' and datname = current_database()",
    );
    await links.write(link, "v2");

    expect(lost).not.to.have.length(0);
    await links.synced(link, 2);
  });

  it("is brought soon by itself when it is not heard of", async () => {
    const patient = links.work();
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);

    await server.sql("update secret_link set status = 'pending', due_at = now() where id = $1", [link.id]);

    await place.received(2);
    await patient.stop();
  });
});

describe("A place that does not confirm", () => {
  links.useWorker(50);

  for (const [what, trouble, code, message] of [
    ["answers an error", answers(500, "no: v1"), "refused", "the webhook answered 500"],
    ["refuses the credentials", answers(401), "refused", "the webhook answered 401"],
    ["redirects", redirectsTo("http://127.0.0.1/"), "refused", "the webhook answered 307; redirects are not followed"],
    ["breaks off", breaksOff({ done: true }), "unreachable", "the webhook: "],
  ] as const) {
    it(`is tried again later when it ${what}, and the last confirmed version stands`, async () => {
      const place = await links.receiver();
      const link = await links.of(toWebhook(place.url()));
      const { last_synced } = await links.synced(link);
      place.behave(() => trouble);
      await links.write(link, "v2");

      const failed = await links.failed(link);

      expect(failed).to.deep.include({ version: 1, last_synced });
      expect(failed.last_error.code).to.equal(code);
      expect(failed.last_error.message.startsWith(message)).to.equal(true, failed.last_error.message);
      expect(failed.last_error.at).to.be.a("string");
      place.behave();
      await links.letTimePass(link);
      expect(await links.synced(link, 2)).to.include({ last_error: null });
    });
  }

  it("is not written while it is down, and catches up by itself, with the last version only", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);
    place.behave(() => answers(503));
    for (const value of ["v2", "v3"]) {
      await links.write(link, value);
      await links.failed(link);
    }
    for (let hour = 0; hour < 4; hour += 1) {
      const before = place.requests.length;
      await links.letTimePass(link);
      await place.received(before + 1);
      await links.failed(link);
    }

    place.behave();
    const before = place.requests.length;
    await links.letTimePass(link);
    await links.synced(link, 3);

    expect(valuesAt(place).slice(before)).to.deep.equal(["v3"]);
  });

  it("is left alone for 10 s, and then twice as long each time, up to 15 min", async () => {
    const place = await links.receiver();
    place.behave(() => answers(500));
    const link = await links.of(toWebhook(place.url()));
    const pauses: number[] = [];
    for (let attempt = 1; attempt <= 9; attempt += 1) {
      await place.received(attempt);
      await links.failed(link);
      pauses.push(await pauseOf(link));
      await links.letTimePass(link);
    }

    for (const [index, pause] of pauses.entries()) {
      const usual = Math.min(10 * 2 ** index, 900);
      expect(pause).to.be.within(0.9 * usual, 1.1 * usual);
    }
  });

  for (const [what, header, least, most] of [
    ["seconds", () => "120", 120, 120],
    ["less than usual", () => "1", 9, 11],
    ["more than an hour", () => "999999", 3600, 3600],
    ["a date", () => new Date(Date.now() + 600_000).toUTCString(), 500, 600],
  ] as const) {
    it(`is left alone for as long as it asks: ${what}`, async () => {
      const place = await links.receiver();
      place.behave(() => answers(429, "", { "retry-after": header() }));
      const link = await links.of(toWebhook(place.url()));

      await links.failed(link);

      expect(await pauseOf(link)).to.be.within(least, most);
    });
  }

  it("is not reached at all where the server may not send to", async () => {
    const link = await links.of(toWebhook("http://169.254.169.254/latest/meta-data"));

    const { last_error } = await links.failed(link);

    expect(last_error.code).to.equal("invalid");
    expect(last_error.message).to.include("no address that may be sent to");
  });
});

describe("A secret", () => {
  links.useWorker(50);

  it("whose life is over is not written, swept or not, and is again when it is restored", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);
    await server.sql("update secret set expires_at = now() where id = $1", [link.secret_id]);
    await server.sql("update secret_link set due_at = now(), status = 'pending' where id = $1", [link.id]);
    const other = await links.of(toWebhook(place.url("/other")));
    await links.synced(other);
    expect(valuesAt(place)).to.deep.equal(["v1"]);

    await server.admin.rest("POST", `/api/v1/secrets/${link.secret_id}/restore`, {});

    await place.received(2);
  });

  it("that is restored has the value it has then brought to its places", async () => {
    const place = await links.receiver();
    const link = await links.of(toWebhook(place.url()));
    await links.synced(link);

    await server.admin.rest("POST", `/api/v1/secrets/${link.secret_id}/archive`, {});
    await server.admin.rest("POST", `/api/v1/secrets/${link.secret_id}/restore`, {});
    await links.write(link, "v2");

    await links.synced(link, 2);
    expect(valuesAt(place).at(-1)).to.equal("v2");
  });

  it("that is deleted for ever while it is written takes its links along, and nothing is left over", async () => {
    const place = await links.receiver();
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    place.behave(() => release);
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);

    const { status } = await server.admin.rest("DELETE", `/api/v1/secrets/${link.secret_id}/permanent`);
    resolve(undefined);

    expect(status).to.equal(204);
    expect(await server.sql("select 1 from secret_link where id = $1", [link.id])).to.deep.equal([]);
    while ((await links.attempts(link)).length === 0) await sleep(10);
    expect(await links.attempts(link)).to.deep.equal(["success 1"]);
  });
});

describe("A link that is changed while it is written", () => {
  links.useWorker(50);

  it("is not written twice at a time when it is switched off and on, and is written after", async () => {
    const place = await links.receiver();
    const releases: (() => void)[] = [];
    place.behave(() => new Promise((resolve) => releases.push(() => resolve(undefined))));
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);

    expect((await links.put(link, { sync_enabled: false })).body.status).to.equal("disabled");
    expect((await links.put(link, { sync_enabled: true })).body.status).to.equal("pending");
    await links.write(link, "v2");
    releases[0]?.();
    await place.received(2);
    releases[1]?.();

    await links.synced(link, 2);
    expect(place.mostAtOnce).to.equal(1);
    expect(valuesAt(place)).to.deep.equal(["v1", "v2"]);
  });

  it("is written after also when nothing but its version says that it must be", async () => {
    const place = await links.receiver();
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    place.behave(() => release);
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);
    await links.write(link, "v2");
    await server.sql("update secret_link set again = false where id = $1", [link.id]);

    resolve(undefined);

    await links.synced(link, 2);
  });

  it("keeps what was confirmed when it was switched off meanwhile", async () => {
    const place = await links.receiver();
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    place.behave(() => release);
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);
    await links.put(link, { sync_enabled: false });

    resolve(undefined);

    const after = await links.once(link, "confirmed", ({ version }) => version === 1);
    expect(after.status).to.equal("disabled");
  });

  it("knows nothing of another place that it leads to now, whatever is heard of the one before", async () => {
    const place = await links.receiver();
    const { promise: release, resolve } = Promise.withResolvers<undefined>();
    place.behave(({ path }) => (path === "/hook" ? release : undefined));
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);

    const { body: moved } = await links.put(link, { config: { url: place.url("/elsewhere") } });
    resolve(undefined);
    while ((await links.attempts(link)).length === 0) await sleep(10);

    expect(moved).to.include({ status: "pending", version: null, last_synced: null, last_error: null });
    expect(await links.get(link)).to.include({ status: "pending", version: null });
    await links.letTimePass(link);
    await links.synced(link);
    expect(valuesAt(place, "/elsewhere")).to.deep.equal(["v1"]);
  });

  it("is tried at once with other credentials", async () => {
    const place = await links.receiver();
    place.behave(({ headers }) => (headers.authorization === "right" ? undefined : answers(401)));
    const credentials = (authorization: string) => ({ credentials: { headers: { authorization } } });
    const link = await links.of(toWebhook(place.url(), credentials("wrong")));
    await links.failed(link);

    await links.put(link, credentials("right"));

    await links.synced(link);
  });
});

describe("What is damaged", () => {
  for (const [what, sql] of [
    ["credentials that do not open", "update secret_link set credentials = sha512('x') where secret_id = $1"],
    ["a value that does not open", "update secret_version set sealed = sha512('x') where secret_id = $1"],
    ["a value that is missing", "delete from secret_version where secret_id = $1"],
    ["a key that does not open", "update data_key set wrapped = sha512('x') where record_id = $1"],
    ["a key that is missing", "delete from data_key where record_id = $1"],
    ["an integration that there is none of", "update secret_link set integration = 'gone' where secret_id = $1"],
    ["a config that is none", "update secret_link set config = '[]' where secret_id = $1"],
  ] as const) {
    it(`fails by itself and stops nothing else: ${what}`, async () => {
      const place = await links.receiver();
      const damaged = await links.of(toWebhook(place.url("/damaged"), { credentials: { signing_secret: "s" } }));
      await server.sql(sql, [damaged.secret_id]);
      const sound = await links.of(toWebhook(place.url()));
      const worker = links.work();

      const { last_error } = await links.failed(damaged);
      await links.synced(sound);

      expect(last_error.code).to.equal("invalid");
      expect(valuesAt(place, "/damaged")).to.deep.equal([]);
      await worker.stop();
    });
  }
});

describe("A worker that ends", () => {
  it("gives back what it has not finished, and another one does it", async () => {
    const place = await links.receiver();
    place.behave(() => hangs({ done: false }));
    const first = links.work();
    const link = await links.of(toWebhook(place.url()));
    await place.received(1);

    await first.stop();
    expect(await links.get(link)).to.include({ status: "pending", last_error: null });
    place.behave();
    const second = links.work();

    await links.synced(link);
    await second.stop();
    expect(await links.attempts(link)).to.deep.equal(["failure 1", "success 1"]);
  });
});

it("links of no secret are listed as none", async () => {
  const { id } = await server.secret();

  expect((await server.admin.rest("GET", linksPath(id))).body).to.deep.equal({ data: [] });
});
