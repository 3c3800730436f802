import type pg from "pg";
import { isKvnoBehindAmongAll, isSharedKeyAmongAll } from "../../src/server/keytabs/findings.ts";
import { populate } from "../server/keytabs/populate.ts";
import type { Effort } from "./options.ts";
import { measureRefresh } from "./refresh-compliance.ts";
import type { Holdfast, Stage } from "./stage.ts";
import { get, httpSubject, median, medianRound, takeTurns, warmUp } from "./subjects.ts";
import { atMost, type Line, type Target } from "./table.ts";

const hosts = 5000;

const countKeytabs = "select count(*) from keytab k where k.organization_id = $1 and k.deleted_at is null";
const countFiles = "select count(*) from discovered_keytab f where f.organization_id = $1 and not f.stale";

/** What the dashboard counts, each by itself; no two of them in one pass. */
const counts = [
  countKeytabs,
  `${countKeytabs} and k.status = 'active' and (k.expires_at is null or k.expires_at > now())`,
  `${countKeytabs} and k.cipher_compliance = 'warning'`,
  `select cipher, count(*) from keytab k, unnest(k.encryption_types) as cipher
   where k.organization_id = $1 and k.deleted_at is null group by cipher`,
  `${countFiles} and 'world_readable' = any(f.findings)`,
  `${countFiles} and ${isSharedKeyAmongAll("f", "$1")}`,
  `${countFiles} and ${isKvnoBehindAmongAll("f", "$1")}`,
];

interface Measured {
  readonly scenario: string;
  readonly path: string;
  readonly against: string;
  readonly theirMs: number;
  readonly target?: Target;
}

/** What looks through all keytabs, or at a page of them, where there are many, and as many files on hosts. */
export async function measureManyKeytabs(stage: Stage, effort: Effort): Promise<Line[]> {
  const { manyKeytabs: many, rounds } = effort;
  const server = await stage.holdfast("keytabs_many");
  const { database } = server;
  const sql = async (text: string) => (await database.query(text)).rows;
  const [{ id: organizationId }] = await sql("select id from organization");
  await populate({ sql }, organizationId, { keytabs: many, agents: hosts, files: many, copies: 0 });
  await sql("vacuum (analyze)");
  const timeOf = (text: string) => medianMs(database, text, organizationId, 2 * rounds + 3);
  const all: number[] = [];
  for (const text of counts) all.push(await timeOf(text));
  const measured: Measured[] = [
    {
      scenario: `dashboard of ${many} keytabs and files`,
      path: "/dashboard",
      against: "its slowest count",
      theirMs: Math.max(...all),
      target: atMost(3),
    },
    {
      scenario: `list 25 of ${many} keytabs`,
      path: "?limit=25",
      against: "a count of them",
      theirMs: await timeOf(countKeytabs),
    },
    {
      scenario: `list 25 of ${many} files`,
      path: "/discovered?limit=25",
      against: "a count of them",
      theirMs: await timeOf(countFiles),
    },
  ];
  const lines: Line[] = [];
  for (const each of measured) lines.push(await measurePath(stage, server, effort, each));
  lines.push(...(await measureRefresh(server, organizationId, effort)));
  await server.stop();
  return lines;
}

async function medianMs(database: pg.Client, text: string, organizationId: string, times: number): Promise<number> {
  const took: number[] = [];
  for (let time = 0; time < times; time += 1) {
    const beganAt = performance.now();
    await database.query(text, [organizationId]);
    took.push(performance.now() - beganAt);
  }
  return median(took);
}

async function measurePath(
  stage: Stage,
  server: Holdfast,
  effort: Effort,
  { path, theirMs, against, ...line }: Measured,
): Promise<Line> {
  const requests = [get(`/api/v1/keytabs${path}`, server.api.token)];
  const subject = httpSubject("REST", server, stage.http(), { requests, expectedStatus: 200 });
  await warmUp([subject], 1, effort);
  const [rounds = []] = await takeTurns([subject], 1, effort);
  const { perSecond, ...figures } = medianRound(rounds);
  return {
    ...line,
    connections: 1,
    figure: figures.p50 / theirMs,
    ours: perSecond,
    against: `${against} (${theirMs.toFixed(1)} ms)`,
    ...figures,
  };
}
