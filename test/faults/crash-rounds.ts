import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../harness/client.ts";
import { randomFrom } from "../harness/random.ts";
import { Load } from "./load.ts";
import { until } from "./own-engines.ts";
import { ServerProcess } from "./server-process.ts";

interface Rounds {
  readonly rounds: number;
  readonly seed: number;
  /** The longest time from the first answers to the kill. */
  readonly longestMs: number;
  readonly environment: Record<string, string>;
  readonly databaseUrl: () => string;
  /** Asked once the first server is up. */
  readonly projectId: () => Promise<string>;
  readonly started?: (server: ServerProcess) => Promise<void>;
  /** Runs between the kill and the next start. */
  readonly afterKill?: () => Promise<void>;
}

/** Kills the server under load again and again, and verifies after each restart; answers how much was acknowledged. */
export async function crashRounds(options: Rounds, login: (url: string) => Promise<Client>): Promise<number> {
  const random = randomFrom(options.seed);
  let server = new ServerProcess(options.environment);
  try {
    const url = await server.ready();
    await options.started?.(server);
    let client = await login(url);
    const load = new Load(await options.projectId(), random);
    for (let round = 0; round < options.rounds; round++) {
      const before = load.acknowledged;
      const running = load.run(client, 12);
      await until(() => load.acknowledged > before + 10);
      await sleep(random() * options.longestMs);
      await server.kill();
      await running;
      await options.afterKill?.();
      server = new ServerProcess(options.environment);
      client = await login(await server.ready());
      await load.verify(client, options.databaseUrl());
    }
    return load.acknowledged;
  } finally {
    await server.kill();
  }
}
