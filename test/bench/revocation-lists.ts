import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { copyIn } from "./copy-in.ts";
import type { Effort } from "./options.ts";
import { memoryMib } from "./processes.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { median } from "./subjects.ts";
import { atMost, type Line } from "./table.ts";

const rowsPerCopy = 50_000;
const pollMs = 50;
/** What a list of any length may add to the memory of the process that builds it, or sends it. */
const mostMoreMib = 100;
/** How late everything else that the process does may be meanwhile. */
const mostLateMs = 100;
const perMib = 2 ** 20;

interface BuiltList {
  readonly number: number;
  readonly size: number;
}

/** How long it takes to build a long revocation list, and to send it, and what that takes of the process that does. */
export async function measureRevocationLists(stage: Stage, { revoked, rounds }: Effort): Promise<Line[]> {
  const server = await stage.watchedHoldfast("revocation_lists");
  const { database, api } = server;
  const subject = { common_name: "Bench Root" };
  const { id, organization_id: organizationId } = await api.post("/certificate-authorities", {
    name: "bench",
    type: "root",
    subject,
  });
  await builtAfter(database, id as string, 0);
  await addRevoked(database, id as string, organizationId as string, revoked);
  await database.query("vacuum (analyze) certificate_status");
  await server.delays();
  const memoryBefore = memoryMib(server.pid)?.now ?? Number.NaN;
  const seconds: number[] = [];
  let built: BuiltList = { number: 1, size: 0 };
  for (let round = 0; round < rounds; round += 1) {
    const beganAt = await makeDue(database, id as string);
    built = await builtAfter(database, id as string, built.number);
    seconds.push((performance.now() - beganAt) / 1000);
  }
  const late = await server.delays();
  const memoryBuilt = memoryMib(server.pid)?.peak ?? Number.NaN;
  const sent = await downloads(server, id as string, rounds);
  const memorySent = memoryMib(server.pid)?.peak ?? Number.NaN;
  await server.stop();
  if (sent.size !== built.size) throw new Error(`${sent.size} bytes of ${built.size} were sent`);
  const list = `a revocation list of ${revoked}`;
  const mib = built.size / perMib;
  return [
    { scenario: `build ${list} (${mib.toFixed(0)} MiB)`, figure: median(seconds), unit: "s" },
    { scenario: `build ${list}: event loop late, p99`, figure: late.p99, unit: "ms", target: atMost(mostLateMs) },
    {
      scenario: `build ${list}: more memory at its peak`,
      figure: memoryBuilt - memoryBefore,
      unit: "MiB",
      target: atMost(mostMoreMib),
    },
    { scenario: `download ${list}`, figure: mib / median(sent.seconds), unit: "MiB/s" },
    {
      scenario: `download ${list}: more memory at its peak`,
      figure: memorySent - memoryBefore,
      unit: "MiB",
      target: atMost(mostMoreMib),
    },
  ];
}

/** As many certificates, of which every second one says why it was revoked. */
async function addRevoked(database: pg.Client, id: string, organizationId: string, count: number): Promise<void> {
  const columns = "ca_id, serial_number, organization_id, not_after, revoked_at, revocation_reason";
  for (let added = 0; added < count; added += rowsPerCopy) {
    const rows = Array.from({ length: Math.min(rowsPerCopy, count - added) }, (_, n) => {
      const serialNumber = `4${randomBytes(20).toString("hex").slice(1)}`;
      const reason = n % 2 === 0 ? "superseded" : "unspecified";
      return `${[id, serialNumber, organizationId, "2099-01-01Z", "2026-01-01Z", reason].join("\t")}\n`;
    });
    await copyIn(database, `certificate_status (${columns})`, Buffer.from(rows.join("")));
  }
}

/** Has the next list built now, however long the last one took; answers when that was. */
async function makeDue(database: pg.Client, id: string): Promise<number> {
  await database.query("update crl set due_at = now(), claimed_until = null where ca_id = $1", [id]);
  return performance.now();
}

async function builtAfter(database: pg.Client, id: string, number: number): Promise<BuiltList> {
  for (;;) {
    const { rows } = await database.query<BuiltList>("select number::int, size::int from crl where ca_id = $1", [id]);
    const [row] = rows;
    if (row !== undefined && row.number > number) return row;
    await sleep(pollMs);
  }
}

async function downloads({ api, port }: Holdfast, id: string, rounds: number) {
  const seconds: number[] = [];
  let size = 0;
  for (let round = 0; round < rounds; round += 1) {
    const beganAt = performance.now();
    const headers = { authorization: `Bearer ${api.token}` };
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/certificate-authorities/${id}/crl`, { headers });
    size = 0;
    for await (const piece of response.body ?? []) size += (piece as Uint8Array).length;
    seconds.push((performance.now() - beganAt) / 1000);
  }
  return { seconds, size };
}
