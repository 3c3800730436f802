import { Client } from "pg";
import { type Engines, startEngines } from "../../src/engines/engines.ts";

// A service that does nothing but hold its engines: says where they are, or why not, and stops them on SIGINT.

let engines: Engines | undefined;

process.on("SIGINT", () => void drain());
try {
  engines = await startEngines(process.argv[2] ?? "");
  say({ databaseUrl: engines.databaseUrl, redisUrl: engines.redisUrl });
  setInterval(() => {}, 60_000);
} catch (error) {
  say({ refused: error instanceof Error ? `${error.name}: ${error.message}` : String(error) });
}

/** Uses the database once more before it stops, as a service with calls in flight does. */
async function drain(): Promise<void> {
  const client = new Client({ connectionString: engines?.databaseUrl });
  await client.connect();
  await client.query("SELECT pg_sleep(0.2)");
  await client.end();
  await engines?.stop();
  say({ drained: true });
  process.exit(0);
}

function say(what: object): void {
  console.log(JSON.stringify(what));
}
