import pg from "pg";

/** As many as a server has by default. */
const connections = 16;

export function newPool(connectionString: string): pg.Pool {
  const made = new pg.Pool({ connectionString, max: connections });
  made.on("error", () => {});
  return made;
}

export async function inTransaction(pool: pg.Pool, statements: readonly pg.QueryConfig[]): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    for (const statement of statements) await client.query(statement);
    await client.query("commit");
  } finally {
    client.release();
  }
}
