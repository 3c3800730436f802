import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { pausePostgres, until } from "../own-engines.ts";
import { deckOf } from "./deck.ts";
import type { Replica } from "./replica.ts";
import type { ReplicatedServer } from "./replicated-server.ts";
import type { Witness } from "./witness.ts";

/** Does one fault after the other to a server, each of which it heals, with some peace between, until `signal` is aborted. */
export async function troubleServer(
  server: ReplicatedServer,
  random: () => number,
  witness: Witness,
  signal: AbortSignal,
): Promise<void> {
  const faults = faultsOf(server, random);
  witness.expect(...Object.keys(faults).map((name) => `fault: ${name}`));
  for (const name of deckOf(Object.keys(faults), random)) {
    await sleep(500 + random() * 2500, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    await faults[name]?.();
    witness.count(`fault: ${name}`);
  }
}

function faultsOf(server: ReplicatedServer, random: () => number): Record<string, () => Promise<void>> {
  const anyOf = <T>(things: readonly T[]) => things[Math.floor(random() * things.length)] as T;
  const awhile = (mostMs = 3000) => sleep(random() * mostMs);
  const withoutNodes = async (indexes: readonly number[]) => {
    for (const index of indexes) await server.nodes[index]?.stop();
    await awhile();
    for (const index of indexes) await server.startNode(index);
  };
  return {
    async "a replica stands still"() {
      const replica = anyOf(server.replicas);
      replica.pause();
      await awhile();
      replica.resume();
    },
    async "a replica is killed"() {
      const replica = anyOf(server.replicas);
      await replica.kill();
      await awhile(1000);
      await replica.restart();
    },
    async "connections to a replica are cut"() {
      const { link } = anyOf(server.replicas);
      for (let times = 0; times < 5; times += 1) {
        link.cut();
        await awhile(300);
      }
    },
    async "the way to a replica is slow"() {
      const { link } = anyOf(server.replicas);
      link.delayMs = 20 + random() * 400;
      await awhile();
      link.delayMs = 0;
    },
    async "the clock of a replica is off"() {
      // Always the last one: processes that log in would not be believed by the others.
      (server.replicas.at(-1) as Replica).misleadClock();
      await awhile();
    },
    "a lock node is away": () => withoutNodes([anyOf([0, 1, 2])]),
    "two lock nodes are away": () =>
      withoutNodes(
        anyOf([
          [0, 1],
          [0, 2],
          [1, 2],
        ]),
      ),
    async "a lock node hangs"() {
      const { pid } = anyOf(server.nodes);
      process.kill(pid, "SIGSTOP");
      await awhile(2000);
      process.kill(pid, "SIGCONT");
    },
    async "PostgreSQL is restarted"() {
      await server.postgres.stop();
      await awhile(1000);
      await server.startPostgres();
    },
    async "PostgreSQL is killed"() {
      const { pid } = server.postgres;
      process.kill(pid, "SIGKILL");
      await until(() => server.postgres.pid !== pid, 60_000);
    },
    async "PostgreSQL hangs"() {
      const resume = pausePostgres(server.postgres);
      await awhile();
      resume();
    },
    async "PostgreSQL drops connections"() {
      const killer = new pg.Client(server.postgres.superuserUrl);
      await killer.connect();
      for (let times = 0; times < 10; times += 1) {
        await killer.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and random() < 0.3",
        );
        await awhile(100);
      }
      await killer.end();
    },
  };
}
