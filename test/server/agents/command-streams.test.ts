import { createPrivateKey } from "node:crypto";
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { type JWTPayload, SignJWT } from "jose";
import { KeytabRequests } from "../../../src/server/agents/keytab-requests.ts";
import type { Server } from "../../../src/server/server.ts";
import { until } from "../../faults/own-engines.ts";
import { Client } from "../../harness/client.ts";
import { Host, type Watch } from "../../harness/host.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { refusalOf } from "./refusal.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const hosts: Host[] = [];
let replica: Server;
before(async () => {
  replica = await server.startReplica();
});
afterEach(() => hosts.splice(0).forEach((host) => host.close()));

async function enroll(fields: Parameters<typeof Host.enroll>[1] = {}): Promise<Host> {
  const host = await Host.enroll(server, fields);
  hosts.push(host);
  return host;
}

/** A stream that is up. */
async function watching(host: Host, client = host.client): Promise<Watch> {
  const watch = host.watch({ client });
  expect((await watch.next())?.kind).to.deep.include({ case: "welcome" });
  return watch;
}

/** Requests that wait for the agent's answer; their ids. No replica says that they are there. */
async function request(host: Host, count = 1, seconds = 30): Promise<string[]> {
  const rows = await server.sql(
    `insert into agent_command (organization_id, agent_id, file_path, expected_hash, expires_at)
     select organization_id, id, '/etc/krb5.keytab', '', now() + make_interval(secs => $3)
     from agent, generate_series(1, $2) where id = $1 returning id`,
    [host.id, count, seconds],
  );
  return rows.map(({ id }) => id);
}

/** Which agents a replica asks the database for, statement by statement. */
function looksOf({ core }: Server) {
  const { pool } = core.db;
  const query = pool.query.bind(pool) as (...args: unknown[]) => unknown;
  const asked: string[][] = [];
  pool.query = ((text: string, values: unknown[]) => {
    if (text.includes("agent_command")) asked.push(values[0] as string[]);
    return query(text, values);
  }) as typeof pool.query;
  const stop = () => {
    pool.query = query as typeof pool.query;
  };
  return { asked, stop };
}

/** The same access token, but with its end four seconds from now. */
async function endingSoon(token: string): Promise<string> {
  const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as JWTPayload;
  const pkcs8 = await server.server.core.seal.serviceKey("token-signing");
  const exp = Math.floor(Date.now() / 1000) + 4;
  return new SignJWT({ ...claims, exp })
    .setProtectedHeader({ alg: "EdDSA", typ: "JWT" })
    .sign(createPrivateKey({ key: pkcs8, type: "pkcs8", format: "der" }));
}

/** The id of the request that comes next. */
async function nextRequest(watch: Watch): Promise<string | undefined> {
  const command = await watch.next();
  return command?.kind.case === "uploadKeytab" ? command.kind.value.requestId : command?.kind.case;
}

const ending = (watch: Watch) => refusalOf(watch.next().then((message) => expect(message).to.equal(undefined)));
const act = (host: Host, action: string) => server.admin.rest("POST", `/api/v1/agents/${host.id}/${action}`);
const warnings = () =>
  server.log.split("\n").filter((line) => line !== "" && (JSON.parse(line) as { level: number }).level >= 40);

describe("A stream of commands", () => {
  it("begins with a welcome, which says how often to send a heartbeat", async () => {
    const host = await enroll();

    const first = await host.watch().next();

    expect(first?.kind).to.deep.include({ case: "welcome" });
    expect(first?.kind.value).to.include({ heartbeatIntervalSeconds: 30 });
  });

  it("says what was asked before it was open, in that order", async () => {
    const host = await enroll();
    const asked = [...(await request(host)), ...(await request(host))];

    const watch = await watching(host);

    expect([await nextRequest(watch), await nextRequest(watch)]).to.deep.equal(asked);
  });

  it("says what is asked while it is open, once, although nobody says that there is news", async () => {
    const host = await enroll();
    const watch = await watching(host);

    const first = await request(host);
    const seen = [await nextRequest(watch)];
    const second = await request(host);
    seen.push(await nextRequest(watch));

    expect(seen).to.deep.equal([...first, ...second]);
  });

  it("says what nobody has answered again when it is opened anew", async () => {
    const host = await enroll();
    const [asked] = await request(host);
    const first = await watching(host);
    await nextRequest(first);
    first.cancel();

    const second = await watching(host);

    expect(await nextRequest(second)).to.equal(asked);
  });

  it("says nothing of what is over, and nothing of other agents", async () => {
    const [host, other] = [await enroll(), await enroll()];
    await request(host, 1, 0);
    await request(other);

    const watch = await watching(host);
    const [asked] = await request(host);

    expect(await nextRequest(watch)).to.equal(asked);
  });

  it("says all that is asked, however much of it waits at once", async () => {
    const host = await enroll();
    const asked = await request(host, 150);
    const watch = await watching(host);
    const answered: string[] = [];

    for (let next = 0; next < asked.length; next += 1) {
      const id = (await nextRequest(watch)) ?? "";
      answered.push(id);
      await host.upload(id, { case: "failure", value: "no such file" });
    }

    expect(new Set(answered)).to.deep.equal(new Set(asked));
  });

  it("ends at once on every replica when its agent is disabled", async () => {
    for (const url of [server.url, urlOf(replica)]) {
      const host = await enroll({ url });
      const watch = await watching(host);

      await act(host, "disable");

      expect(await ending(watch)).to.equal("PERMISSION_DENIED: the agent is disabled");
    }
  });

  it("ends when its agent is removed, as an agent or as an identity", async () => {
    for (const path of ["agents", "machine-identities"]) {
      const host = await enroll({ url: urlOf(replica) });
      const watch = await watching(host);

      await server.admin.rest("DELETE", `/api/v1/${path}/${host.id}`);

      expect(await ending(watch)).to.equal("AUTH_INVALID: the token is invalid");
    }
  });

  it("ends when its identity is disabled", async () => {
    const host = await enroll();
    const watch = await watching(host);

    await server.admin.rest("POST", `/api/v1/machine-identities/${host.id}/disable`);

    expect(await ending(watch)).to.equal("AUTH_INVALID: the token is invalid");
  });

  it("ends when the agent logs out, or when the API token that opened it is revoked", async () => {
    const host = await enroll();
    const watch = await watching(host);
    const { body: apiToken } = await host.client.rest("POST", "/api/v1/api-tokens", { name: "stream" });
    const byApiToken = await watching(host, new Client(server.url, apiToken.token));

    await host.client.rest("DELETE", `/api/v1/api-tokens/${apiToken.id}`);
    await host.client.rest("POST", "/api/v1/auth/logout");

    expect(await ending(watch)).to.equal("AUTH_INVALID: the token is invalid");
    expect(await ending(byApiToken)).to.equal("AUTH_INVALID: the token is invalid");
  });

  it("ends well when the credential that it was opened with is past its end", async () => {
    const host = await enroll();
    const token = await endingSoon(host.client.token ?? "");

    const watch = host.watch({ client: new Client(server.url, token) });

    expect((await watch.next())?.kind.case).to.equal("welcome");
    expect(await watch.next()).to.equal(undefined);
    expect(
      await server.sql("select 1 from audit_event where action = 'agent.watch' and actor_id = $1", [host.id]),
    ).to.have.length(0);
  });

  it("of a disabled agent that is enabled can be opened again", async () => {
    const host = await enroll();
    await act(host, "disable");
    await act(host, "enable");

    await watching(host);
  });

  it("makes room for the newest when an agent has opened too many", async () => {
    const host = await enroll();
    const watches: Watch[] = [];
    for (let each = 0; each < 5; each += 1) watches.push(await watching(host));

    const [asked] = await request(host);

    const [oldest, ...others] = watches;
    expect(await oldest?.next()).to.equal(undefined);
    for (const watch of others) expect(await nextRequest(watch)).to.equal(asked);
  });

  it("costs no statement of its own while nothing happens, and none at all when it is over", async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => enroll()));
    await Promise.all(all.map((host) => watching(host)));
    const ids = new Set(all.map(({ id }) => id));
    const looks = looksOf(server.server);
    await until(() => looks.asked.some((agents) => agents.length === 20));
    looks.asked.length = 0;

    await until(() => looks.asked.length >= 3);
    const idle = [...looks.asked];
    for (const host of hosts) host.close();
    await until(async () => {
      looks.asked.length = 0;
      await sleep(1500);
      return looks.asked.length === 0;
    });
    looks.stop();

    for (const agents of idle) expect(new Set(agents)).to.deep.equal(ids);
  });

  it("is looked after at once when something is asked on another replica, and no other stream with it", async () => {
    const [host] = [await enroll({ url: urlOf(replica) }), await enroll({ url: urlOf(replica) })];
    for (const each of hosts) await watching(each);
    const [{ organization_id: organizationId }] = await server.sql("select organization_id from agent limit 1");
    const { core } = server.server;
    const file = { organizationId, agentId: host.id, hostname: host.hostname, filePath: "/etc/a", expectedHash: "" };
    const looks = looksOf(replica);

    // A hint that comes while all are asked for is answered with them.
    for (let round = 0; round < 5; round += 1) {
      const asked = new KeytabRequests(core, 0.1).ask(core.db, file, new AbortController().signal);
      await asked.catch(() => {});
    }
    looks.stop();

    expect(looks.asked).to.deep.include([host.id]);
  });

  it("goes on when the database was away for a while", async () => {
    const host = await enroll();
    const watch = await watching(host);
    await server.sql(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`);

    const [asked] = await request(host);

    expect(await nextRequest(watch)).to.equal(asked);
  });

  it("that its agent leaves, in whatever way, is no news for the log", async () => {
    const host = await enroll();
    const leave = [
      (session: ClientHttp2Session) => session.socket.destroy(),
      (session: ClientHttp2Session) => session.destroy(),
      (_: ClientHttp2Session, stream: ClientHttp2Stream) => stream.close(),
      (_: ClientHttp2Session, stream: ClientHttp2Stream) => stream.close(constants.NGHTTP2_CANCEL),
    ];
    const before = warnings().length;

    for (const way of leave) {
      const session = connect(server.url);
      const stream = session.request({
        ":method": "POST",
        ":path": "/holdfast.agents.v1.AgentLinkService/WatchCommands",
        "content-type": "application/grpc",
        te: "trailers",
        authorization: `Bearer ${host.client.token}`,
      });
      stream.on("error", () => {}).end(Buffer.alloc(5));
      await once(stream, "data");
      way(session, stream);
      await sleep(200);
      session.destroy();
    }

    expect(warnings().slice(before)).to.deep.equal([]);
  });

  it("ends with the server, so that the agent goes elsewhere", async () => {
    const stopping = await server.startReplica();
    const host = await enroll({ url: urlOf(stopping) });
    const watch = await watching(host);

    const stopped = stopping.stop(60_000);

    expect(await watch.next()).to.equal(undefined);
    // Long before the time that calls have to end.
    await stopped;
  });
});
