import { randomUUIDv7 } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import pg from "pg";
import { opensslPower } from "../../src/server/auth/srp-power.ts";
import { rfc5054Group3072 as group } from "../../src/standards/srp.ts";
import { auditRow, floorIds, listRows, pick, readRow, secretRow, versionRow } from "./floor-tables.ts";

// A server that does only what cannot be left out: node:http, and for F2 to F6 the statements and the arithmetic that
// the kind needs.

type Kind = "F1" | "F2" | "F3" | "F4" | "F5" | "F6";

const [kind, databaseUrl] = process.argv.slice(2) as [Kind, string];
const pool = new pg.Pool({ connectionString: databaseUrl, max: 16 });
pool.on("error", () => {});
const ids = kind === "F1" || kind === "F5" ? [] : await floorIds(pool);
/** About as long as a secret with its value. */
const fixed = JSON.stringify({ id: "0".repeat(36), filling: "x".repeat(650) });

/** As a login with a password begins. */
const begun = JSON.stringify({
  salt: Buffer.alloc(32, 1).toString("base64"),
  server_public_key: Buffer.alloc(group.length, 1).toString("base64"),
});
const exponent = 2n ** 256n - 1n;
const power = () => opensslPower(group.generator, exponent, group);

const work: Record<Kind, (path: string) => string | Promise<string>> = {
  F1: () => fixed,
  async F2() {
    await pool.query(readRow(pick(ids)));
    return fixed;
  },
  async F3() {
    await pool.query(readRow(pick(ids)));
    await pool.query(auditRow("secret.read_value"));
    return fixed;
  },
  async F4() {
    const { rows } = await pool.query(listRows());
    return JSON.stringify(rows);
  },
  async F5() {
    const client = await pool.connect();
    try {
      const id = randomUUIDv7();
      await client.query("begin");
      await client.query(secretRow(id));
      await client.query(versionRow(id));
      await client.query(auditRow("secret.create"));
      await client.query("commit");
      return fixed;
    } finally {
      client.release();
    }
  },
  async F6(path) {
    await pool.query(readRow(pick(ids)));
    await power();
    if (path.endsWith("/init")) return begun;
    await power();
    await pool.query(auditRow("auth.login"));
    return fixed;
  },
};

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method === "POST") for await (const _ of request);
  const body = await work[kind](request.url ?? "");
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    console.error(error);
    response.writeHead(500, { "content-length": 0 }).end();
  });
});
server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
process.on("disconnect", () => process.exit(0));
process.on("SIGTERM", () => process.exit(0));
