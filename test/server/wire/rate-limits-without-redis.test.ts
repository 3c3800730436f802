import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { startValkey, type ValkeyEngine } from "../../../src/engines/engines.ts";
import { useServer } from "../../harness/server.ts";
import { errorLines } from "./raw-http.ts";

describe("While Redis is away", () => {
  const settings: Record<string, string> = { RATE_LIMIT_API: "20" };
  let folder: string;
  let valkey: ValkeyEngine;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "holdfast-test-"));
    valkey = await startValkey(folder);
    settings["REDIS_URL"] = valkey.url;
  });
  const server = useServer(settings);
  after(async () => {
    await valkey.stop();
    await rm(folder, { recursive: true, force: true });
  });
  const call = () => server.anonymous.rest("GET", "/api/v1/secrets");

  it("calls are limited in memory without delay, and in Redis again when it is back", async () => {
    const before = await call();
    await valkey.stop();

    const started = performance.now();
    const away = [];
    for (let round = 0; round < 22; round += 1) away.push(await call());
    const tookMs = performance.now() - started;
    valkey = await startValkey(folder);
    let back = await call();
    for (let tries = 0; back.status === 429 && tries < 250; tries += 1) {
      await sleep(20);
      back = await call();
    }

    expect([before.status, before.headers.get("x-ratelimit-remaining")]).to.deep.equal([401, "19"]);
    expect(away.map(({ status }) => status)).to.deep.equal([...Array.from({ length: 20 }, () => 401), 429, 429]);
    expect(away[0]?.headers.get("x-ratelimit-limit")).to.equal("20");
    // Even if every single one had waited for the command's time limit, which none but the first may.
    expect(tookMs).to.be.below(22 * 200);
    // What was counted in memory is forgotten: Redis starts a window of its own.
    expect([back.status, back.headers.get("x-ratelimit-remaining")]).to.deep.equal([401, "19"]);
    expect(errorLines(server.log)).to.deep.equal([]);
  });
});
