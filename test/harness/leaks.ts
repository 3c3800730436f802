import { setTimeout as sleep } from "node:timers/promises";
import type { TestServer } from "./server.ts";

/** The ways in which bytes may show up in text. */
export function disguises(bytes: Buffer): string[] {
  // What stands before the bytes decides how base64 cuts them: of three shifts one is always there.
  const shifted = [0, 1, 2].map((pad) => {
    const encoded = Buffer.concat([Buffer.alloc(pad), bytes]).toString("base64");
    return encoded.slice(pad === 0 ? 0 : 4, -4);
  });
  return [
    bytes.toString("latin1"),
    bytes.toString("hex"),
    bytes.join(","),
    ...shifted,
    ...shifted.map((each) => each.replaceAll("+", "-").replaceAll("/", "_")),
  ];
}

/** Every column of every table in one text: bytes as hex, as text, and the rest as PostgreSQL writes it. */
export async function dump(server: TestServer): Promise<string> {
  // The job queue makes its tables while the server serves already.
  for (;;) {
    const [made] = await server.sql("select to_regclass('jobs.schedule') is not null as queue");
    if (made.queue) break;
    await sleep(10);
  }
  const columns = await server.sql(
    `select format('%I.%I', table_schema, table_name) as "table", column_name, data_type from information_schema.columns
     where table_schema in ('public', 'jobs') order by 1, ordinal_position`,
  );
  const parts = [];
  for (const [table, its] of Map.groupBy(columns, (column) => column.table)) {
    const texts = its.map(({ column_name, data_type }) => {
      const column = `"${column_name}"`;
      return data_type === "bytea" ? `encode(${column}, 'hex'), encode(${column}, 'escape')` : `${column}::text`;
    });
    const rows = await server.sql(`select concat_ws(' ', ${texts.join(", ")}) as text from ${table}`);
    parts.push(...rows.map((row) => row.text));
  }
  return parts.join("\n");
}
