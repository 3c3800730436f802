import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { survivors } from "../engines/running.ts";
import { useServer } from "../harness/server.ts";
import { crashRounds } from "./crash-rounds.ts";
import { until } from "./own-engines.ts";
import type { ServerProcess } from "./server-process.ts";

const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe("A server that is killed under load, again and again", () => {
  const server = useServer({ LOG_LEVEL: "warn" });

  it("on engines that live on: has kept every acknowledged write, recorded every answer, left nothing half made", async () => {
    const options = {
      rounds: 25,
      seed,
      longestMs: 1500,
      environment: { ...server.environment(), SERVICE_LOG_LEVEL: "info" },
      databaseUrl: () => server.databaseUrl,
      projectId: async () => server.projectId,
    };

    const acknowledged = await crashRounds(options, (url) => server.login(server.clientId, server.clientSecret, url));

    console.log(`      HOLDFAST_TEST_SEED=${seed}: ${acknowledged} calls were acknowledged`);
    expect(acknowledged).to.be.above(500);
  });

  it("on embedded engines that die with it: the same", async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-crash-"));
    await chmod(folder, 0o711);
    const data = join(folder, "data");
    const first: { process?: ServerProcess } = {};
    const told = (name: string) =>
      new RegExp(`export HOLDFAST_${name}=(\\S+)`).exec(first.process?.stdout ?? "")?.[1] ?? "";
    const environment = {
      SERVICE_DATA_DIR: data,
      SERVICE_PORT: "0",
      SERVICE_OCSP_PORT: "0",
      SERVICE_RATE_LIMIT_API: "0",
      SERVICE_RATE_LIMIT_AUTH: "0",
    };
    const password = async () => (await readFile(join(data, "postgres/superuser.secret"), "utf8")).trim();
    let databaseUrl = "";
    const options = {
      rounds: 6,
      seed,
      longestMs: 1500,
      environment,
      databaseUrl: () => databaseUrl,
      projectId: async () => told("PROJECT_ID"),
      started: async (process: ServerProcess) => {
        first.process = process;
        await until(() => told("CLIENT_SECRET") !== "");
      },
      afterKill: async () => {
        databaseUrl = `postgresql://service:${await password()}@${encodeURIComponent(join(data, "postgres/run"))}:5432/holdfast`;
      },
    };

    const acknowledged = await crashRounds(options, (url) =>
      server.login(told("CLIENT_ID"), told("CLIENT_SECRET"), url),
    );

    console.log(`      HOLDFAST_TEST_SEED=${seed}: ${acknowledged} calls were acknowledged`);
    expect(acknowledged).to.be.above(100);
    expect(await survivors(folder)).to.deep.equal([]);
    await rm(folder, { recursive: true, force: true });
  });
});
