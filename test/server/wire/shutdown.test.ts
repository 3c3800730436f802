import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { credentials } from "@grpc/grpc-js";
import { expect } from "chai";
import pg from "pg";
import { Health } from "../../../gen/ts/health/v1/health_pb.ts";
import { createGrpcClient } from "../../../src/client/grpc-client.ts";
import type { Server } from "../../../src/server/server.ts";
import { Client } from "../../harness/client.ts";
import { urlOf, useServer } from "../../harness/server.ts";
import { open, parseAnswers, portOf, request } from "./raw-http.ts";

describe("A server that stops", () => {
  const server = useServer();
  let replica: Server;
  let url: string;
  beforeEach(async () => {
    replica = await server.startReplica();
    url = urlOf(replica);
  });

  /** Runs `work` while whoever creates a secret has to wait. */
  async function whileWritesWait(work: (release: () => Promise<unknown>) => Promise<void>): Promise<void> {
    const client = new pg.Client(server.databaseUrl);
    await client.connect();
    await client.query("begin");
    await client.query("lock table data_key in exclusive mode");
    try {
      await work(() => client.query("rollback"));
    } finally {
      await client.end();
    }
  }

  const waits = async () => {
    const text = `select 1 from pg_locks where not granted and relation is not null
      and database = (select oid from pg_database where datname = current_database())`;
    for (let tries = 0; tries < 200; tries += 1) {
      if ((await server.sql(text)).length > 0) return;
      await sleep(5);
    }
    throw new Error("nobody waits");
  };

  it("finishes the calls that run, over HTTP/1.1 and HTTP/2, and keeps what they changed", async () => {
    await whileWritesWait(async (release) => {
      const caller = new Client(url, server.admin.token);
      const draft = (key: string) => ({ key, value: "v", project_id: server.projectId });
      const session = connectHttp2(url);
      const stream = session.request({
        ":method": "POST",
        ":path": "/api/v1/secrets",
        authorization: `Bearer ${server.admin.token}`,
      });
      const goaway = once(session, "goaway");
      stream.end(JSON.stringify(draft("running-2")));
      const overHttp1 = caller.rest("POST", "/api/v1/secrets", draft("running-1"));
      const overHttp2 = once(stream, "response") as Promise<[Record<string, unknown>]>;
      await waits();

      const stopped = replica.stop(5000);
      const [code] = (await goaway) as [number];
      const refused = await caller.rest("GET", "/api/v1/health").catch((error: Error) => error);
      await release();
      const [first, [second]] = await Promise.all([overHttp1, overHttp2]);
      stream.resume();
      await stopped;

      expect(code).to.equal(0);
      expect(refused).to.be.instanceOf(Error);
      expect([first.status, second[":status"]]).to.deep.equal([201, 201]);
      const kept = await server.sql("select key from secret where key like 'running-%' order by key");
      expect(kept).to.deep.equal([{ key: "running-1" }, { key: "running-2" }]);
    });
  });

  it("closes connections that are idle, that said nothing yet, and that stopped within a request", async () => {
    const idle = open(url);
    idle.socket.write(request("GET", "/api/v1/health", { headers: { Connection: "keep-alive" } }));
    await once(idle.socket, "data");
    const silent = open(url);
    const undecided = open(url);
    undecided.socket.write("PRI * H");
    const session = connectHttp2(url);
    await once(session, "remoteSettings");

    const started = performance.now();
    await Promise.all([replica.stop(5000), idle.closed, silent.closed, undecided.closed, once(session, "close")]);

    expect(performance.now() - started).to.be.below(4000);
    expect(parseAnswers(idle.received())).to.have.length(1);
    expect(silent.received()).to.equal("");
  });

  it("ends streams, so that their clients go elsewhere", async () => {
    const health = createGrpcClient(Health, `127.0.0.1:${portOf(url)}`, credentials.createInsecure());
    const watch = health.watch({ service: "" });
    const ended = once(watch, "error");
    await once(watch, "data");

    const started = performance.now();
    await replica.stop(5000);
    const [error] = (await ended) as [{ code: number }];
    health.close();

    expect(performance.now() - started).to.be.below(4000);
    expect(error.code).to.equal(14);
  });

  it("cuts what has not ended when its time is over", async () => {
    await whileWritesWait(async (release) => {
      const caller = new Client(url, server.admin.token);
      const draft = { key: "cut", value: "v", project_id: server.projectId };
      const running = caller.rest("POST", "/api/v1/secrets", draft).catch((error: unknown) => error);
      await waits();

      const stopped = replica.stop(100);
      const outcome = await running;
      await release();
      await stopped;

      expect(outcome).to.be.instanceOf(Error);
    });
  });
});
