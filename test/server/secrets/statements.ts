import type { TestServer } from "../../harness/server.ts";

/** The statements that the server sends outside of transactions while `work` runs. */
export async function statementsOf(server: TestServer, work: () => Promise<unknown>): Promise<string[]> {
  const { pool } = server.server.core.db;
  const query = pool.query.bind(pool) as (...args: unknown[]) => unknown;
  const statements: string[] = [];
  pool.query = ((text: string, ...rest: unknown[]) => {
    statements.push(text);
    return query(text, ...rest);
  }) as typeof pool.query;
  try {
    await work();
  } finally {
    pool.query = query as typeof pool.query;
  }
  return statements;
}
