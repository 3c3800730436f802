import { setTimeout as sleep } from "node:timers/promises";
import { ServerOnOwnEngines, pausePostgres, oneOfEach, timed } from "./own-engines.ts";
describe("probe", function () {
  this.timeout(120000);
  const server = new ServerOnOwnEngines({RATE_LIMIT_API: "100000"}, ["api", "ocsp", "jobs"]);
  before(() => server.start());
  after(() => server.stop());
  const pool = () => { const { totalCount, idleCount, waitingCount } = server.server.core.db.pool; return { totalCount, idleCount, waitingCount }; };
  it("postgres stop", async () => {
    const secret = await server.secret();
    console.log(await oneOfEach(server.admin, server.projectId, secret.id));
    await server.postgres.stop();
    for (let i = 0; i < 3; i++) { console.table(await Promise.all([oneOfEach(server.admin, server.projectId, secret.id), timed("health", () => server.anonymous.rest("GET", "/api/v1/health"))]).then((x) => x.flat())); }
    console.log(pool());
    const t = performance.now();
    await server.startPostgres();
    console.log("restart", performance.now() - t);
    console.table(await oneOfEach(server.admin, server.projectId, secret.id));
    console.log(pool(), (await server.anonymous.rest("GET", "/api/v1/health")).body);
  });
  it("pause", async () => {
    const secret = await server.secret();
    const resume = pausePostgres(server.postgres);
    const all = [];
    const started = performance.now();
    const running: Promise<any>[] = [];
    while (performance.now() - started < 7000) {
      running.push(oneOfEach(server.admin, server.projectId, secret.id));
      running.push(timed("health", () => server.anonymous.rest("GET", "/api/v1/health")));
      await sleep(100);
    }
    console.log(pool());
    const results = (await Promise.all(running)).flat();
    const by: any = {};
    for (const r of results) { const k = `${r.what} ${r.status} ${r.code}`; by[k] ??= { n: 0, max: 0 }; by[k].n++; by[k].max = Math.max(by[k].max, r.ms); }
    console.table(by);
    resume();
    const t = performance.now();
    for (let i = 0; i < 5; i++) console.table(await oneOfEach(server.admin, server.projectId, secret.id));
    console.log(performance.now() - t, pool());
  });
  it("redis", async () => {
    const secret = await server.secret();
    await server.valkey.stop();
    for (let i = 0; i < 3; i++) console.table(await oneOfEach(server.admin, server.projectId, secret.id));
    await sleep(1100);
    console.log((await server.anonymous.rest("GET", "/api/v1/health")).body);
    await server.startValkey();
    for (let i = 0; i < 10; i++) { await sleep(300); console.log((await server.anonymous.rest("GET", "/api/v1/health")).body.components); }
  });
  it("redis paused", async () => {
    const secret = await server.secret();
    process.kill(server.valkey.pid, "SIGSTOP");
    const started = performance.now();
    const running: Promise<any>[] = [];
    while (performance.now() - started < 5000) {
      running.push(oneOfEach(server.admin, server.projectId, secret.id));
      await sleep(100);
    }
    const results = (await Promise.all(running)).flat();
    const by: any = {};
    for (const r of results) { const k = `${r.what} ${r.status} ${r.code}`; by[k] ??= { n: 0, max: 0, slow: 0 }; by[k].n++; if (r.ms > 150) by[k].slow++; by[k].max = Math.max(by[k].max, r.ms); }
    console.table(by);
    try { process.kill(server.valkey.pid, "SIGCONT"); } catch {}
    await sleep(500);
    console.log((await server.anonymous.rest("GET", "/api/v1/health")).body.components);
  });
});
