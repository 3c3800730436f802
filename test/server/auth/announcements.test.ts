import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";

const server = useServer();
const tokens = "/api/v1/api-tokens";

let count = 0;
const newName = (kind: string) => `${kind}-${(count += 1)}`;
const statusOf = async (client: Client) => (await client.rest("GET", "/api/v1/whoami")).status;
const terminate = (which: string) =>
  server.sql(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and ${which}`);
const listeners = "application_name = 'holdfast-announcements'";

describe("The end of a credential, on another replica", () => {
  let there: string;
  before(async () => {
    there = urlOf(await server.startReplica());
  });

  /** A token that the other replica remembers. */
  async function remembered() {
    const { body } = await server.admin.rest("POST", tokens, { name: newName("token") });
    const client = new Client(there, body.token, body.id);
    expect(await statusOf(client)).to.equal(200);
    return client;
  }

  it("is known though the connections over which replicas tell each other were cut", async () => {
    for (let round = 0; round < 10; round += 1) {
      const client = await remembered();

      await terminate(listeners);
      await sleep(round * 5); // some are listening again by then, and some are not
      await server.admin.rest("DELETE", `${tokens}/${client.id}`);

      expect(await statusOf(client), `round ${round}`).to.equal(401);
    }
  });

  it("is known by one that was not listening when it came, as soon as it listens again", async () => {
    const replica = await server.startReplica();
    const { db } = replica.core;
    const open = db.openSession.bind(db);
    const { promise: allowed, resolve: allow } = Promise.withResolvers<void>();
    db.openSession = (name) => allowed.then(() => open(name));
    const { body } = await server.admin.rest("POST", tokens, { name: newName("token") });
    const client = new Client(urlOf(replica), body.token);
    expect(await statusOf(client)).to.equal(200);
    const listening = `select 1 from pg_stat_activity
      where datname = current_database() and ${listeners} and query <> '' and state = 'idle'`;
    await terminate(listeners);

    await server.admin.rest("DELETE", `${tokens}/${body.id}`);
    allow();
    while ((await server.sql(listening)).length < 3) await sleep(5);

    expect(await statusOf(client)).to.equal(401);
  });

  it("is known by one that cannot listen any more, for it remembers nothing then", async () => {
    const deaf = await server.startReplica();
    deaf.core.db.openSession = () => Promise.reject(new Error("too many connections"));
    await terminate(listeners);
    for (let round = 0; round < 5; round += 1) {
      const { body } = await server.admin.rest("POST", tokens, { name: newName("token") });
      const client = new Client(urlOf(deaf), body.token);
      expect(await statusOf(client)).to.equal(200);

      await server.admin.rest("DELETE", `${tokens}/${body.id}`);

      expect(await statusOf(client)).to.equal(401);
    }
  });

  it("is known after all connections to the database were cut, as by its restart", async () => {
    const client = await remembered();
    await terminate("true");
    while ((await statusOf(client)) !== 200) await sleep(5);

    let ended = await server.admin.rest("DELETE", `${tokens}/${client.id}`);
    while (ended.status === 503) ended = await server.admin.rest("DELETE", `${tokens}/${client.id}`);

    expect([ended.status, await statusOf(client)]).to.deep.equal([204, 401]);
  });

  it("is none when the call that announced it was rolled back", async () => {
    const unlicensed = urlOf(await server.startReplica({ LICENSE_EXPIRES_AT: "2020-01-01T00:00:00Z" }));
    const identity = await server.as(newName("identity"), ["viewer"]);
    const client = await remembered();

    const refused = [
      await new Client(unlicensed, server.admin.token).rest("DELETE", `${tokens}/${client.id}`),
      await new Client(unlicensed, server.admin.token).rest(
        "POST",
        `/api/v1/machine-identities/${identity.id}/disable`,
        {},
      ),
    ];

    expect(refused.map(({ body }) => body.error.code)).to.deep.equal(["LICENSE_EXPIRED", "LICENSE_EXPIRED"]);
    for (const url of [there, unlicensed, server.url]) {
      expect(await statusOf(new Client(url, client.token))).to.equal(200);
      expect(await statusOf(new Client(url, identity.token))).to.equal(200);
    }
  });

  it("is known of many that end at the same moment", async () => {
    const clients = await Promise.all(Array.from({ length: 30 }, remembered));

    await Promise.all(clients.map(({ id }) => server.admin.rest("DELETE", `${tokens}/${id}`)));

    expect(new Set(await Promise.all(clients.map(statusOf)))).to.deep.equal(new Set([401]));
  });
});
