import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { ServiceClient } from "../../../src/server/db/service-client.ts";
import type { TestServer } from "../../harness/server.ts";

/** A statement with bound values, as the server sent it. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** A step of a plan, by the names of `explain (analyze, buffers, format json)`; the last step is the root. */
export interface Step {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Cond"?: string;
  /** How often it was begun anew. */
  readonly "Actual Loops": number;
  readonly "Shared Hit Blocks": number;
  readonly "Shared Read Blocks": number;
  readonly Plans?: readonly Step[];
}

/** What PostgreSQL does for a statement. */
export interface Plan {
  readonly statement: Statement;
  readonly root: Step;
}

/** A prepared statement is planned anew five times; then PostgreSQL may keep one plan for whatever values come. */
const executions = 6;

/** The statements with bound values that the server sends while `work` runs, and on account of it. */
export async function statementsDuring(server: TestServer, work: () => Promise<unknown>): Promise<Statement[]> {
  const client = ServiceClient.prototype as unknown as { query: (...args: unknown[]) => unknown };
  const { query } = client;
  const statements: Statement[] = [];
  await untilIdle(server);
  client.query = function (this: unknown, text, values, ...rest) {
    if (typeof text === "string" && Array.isArray(values) && values.length > 0) statements.push({ text, values });
    return query.call(this, text, values, ...rest);
  };
  try {
    await work();
    await untilIdle(server);
  } finally {
    client.query = query;
  }
  return statements;
}

/** Some statements are sent without being waited for. */
async function untilIdle(server: TestServer): Promise<void> {
  const { pool } = server.server.core.db;
  while (pool.waitingCount > 0 || pool.idleCount < pool.totalCount) await sleep(1);
}

/** Two plans of each statement: of its first execution, and of one on a connection that has often executed it. */
export async function plansOf(databaseUrl: string, statements: readonly Statement[]): Promise<Plan[]> {
  // As the server's own connections.
  const client = new pg.Client({ connectionString: databaseUrl, options: "-c jit=off" });
  await client.connect();
  try {
    const plans: Plan[] = [];
    for (const statement of statements) {
      const roots = await explain(client, statement);
      plans.push(...[roots.at(0), roots.at(-1)].map((root) => ({ statement, root: root as Step })));
    }
    return plans;
  } finally {
    await client.end();
  }
}

/** Executes a statement again and again, and leaves nothing of what it did. */
async function explain(client: pg.Client, { text, values }: Statement): Promise<Step[]> {
  const roots: Step[] = [];
  await client.query(`prepare explained as ${text}`);
  for (let execution = 1; execution <= executions; execution += 1) {
    await client.query("begin");
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Step }] }>(
      `explain (analyze, buffers, format json) execute explained (${values.map(literal).join(", ")})`,
    );
    await client.query("rollback");
    roots.push(...rows.map(({ "QUERY PLAN": [{ Plan: root }] }) => root));
  }
  await client.query("deallocate explained");
  return roots;
}

function literal(value: unknown): string {
  if (value === null) return "null";
  if (value instanceof Date) return pg.escapeLiteral(value.toISOString());
  if (Buffer.isBuffer(value)) return pg.escapeLiteral(`\\x${value.toString("hex")}`);
  // Texts of an array are quoted as those of JSON are.
  if (Array.isArray(value)) return pg.escapeLiteral(`{${value.map((each) => JSON.stringify(each)).join(",")}}`);
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") {
    return pg.escapeLiteral(String(value));
  }
  throw new TypeError("a value of a kind that no statement here has had");
}

/** All steps of a plan. */
export const stepsOf = (step: Step): Step[] => [step, ...(step.Plans ?? []).flatMap(stepsOf)];

/** How many pages of tables and indexes a step touches: its count holds those of the steps below, but for ones that run after it. */
export function pagesTouched(step: Step): number {
  const below = (step.Plans ?? []).reduce((sum, each) => sum + pagesTouched(each), 0);
  return Math.max(step["Shared Hit Blocks"] + step["Shared Read Blocks"], below);
}
