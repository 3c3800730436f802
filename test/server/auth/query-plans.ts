import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { ServiceClient } from "../../../src/server/db/service-client.ts";
import type { TestServer } from "../../harness/server.ts";

/** A statement with bound values, as the server sent it. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** How PostgreSQL runs a statement. */
export interface Plan {
  readonly statement: Statement;
  readonly root: Node;
}

/** A step of a plan, in the names of `explain (analyze, buffers, format json)`. */
interface Node {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Shared Hit Blocks": number;
  readonly "Shared Read Blocks": number;
  readonly Plans?: readonly Node[];
}

/** Of a prepared statement PostgreSQL makes its own plan for each of the first five executions, then perhaps one for all. */
const executions = 6;

/** The statements with bound values that the server sends while `work` runs, and in consequence of it. */
export async function statementsDuring(server: TestServer, work: () => Promise<unknown>): Promise<Statement[]> {
  const client = ServiceClient.prototype as unknown as { query(...args: unknown[]): unknown };
  const { query } = client;
  const statements: Statement[] = [];
  client.query = function (this: unknown, text, values, ...rest) {
    if (typeof text === "string" && Array.isArray(values) && values.length > 0) statements.push({ text, values });
    return query.call(this, text, values, ...rest);
  };
  try {
    await work();
    const { pool } = server.server.core.db;
    while (pool.waitingCount > 0 || pool.idleCount < pool.totalCount) await sleep(1);
  } finally {
    client.query = query;
  }
  return statements;
}

/** The plan of the first execution of each statement, and the one when a connection has often executed it. */
export async function plansOf(databaseUrl: string, statements: readonly Statement[]): Promise<Plan[]> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    const plans: Plan[] = [];
    for (const statement of statements) plans.push(...(await explain(client, statement)));
    return plans;
  } finally {
    await client.end();
  }
}

/** Changes nothing. */
async function explain(client: pg.Client, statement: Statement): Promise<Plan[]> {
  const plans: Plan[] = [];
  await client.query(`prepare explained as ${statement.text}`);
  const execution = `explain (analyze, buffers, format json) execute explained (${statement.values.map(literal).join(", ")})`;
  for (let execution_ = 0; execution_ < executions; execution_ += 1) {
    await client.query("begin");
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Node }] }>(execution);
    await client.query("rollback");
    plans.push({ statement, root: (rows[0] as (typeof rows)[0])["QUERY PLAN"][0].Plan });
  }
  await client.query("deallocate explained");
  return [plans.at(0) as Plan, plans.at(-1) as Plan];
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return pg.escapeLiteral(Buffer.isBuffer(value) ? `\\x${value.toString("hex")}` : String(value));
}

/** Every step of a plan. */
export const stepsOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(stepsOf)];

/** Pages of tables and indexes that were touched. A step's own count holds those below it, unless they ran after it. */
export function pagesTouched(node: Node): number {
  const below = (node.Plans ?? []).reduce((sum, each) => sum + pagesTouched(each), 0);
  return Math.max(node["Shared Hit Blocks"] + node["Shared Read Blocks"], below);
}
