import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { installationChainKey } from "../../../src/server/audit/chain-key.ts";
import { readCheckpoint, verifyExport } from "../../../src/server/audit/verify-export.ts";
import { type Break, organizationChainKey } from "../../../src/standards/audit-chain.ts";
import type { Client } from "../../harness/client.ts";
import { superuserUrl } from "../../harness/databases.ts";
import type { TestServer } from "../../harness/server.ts";

/** An organization with a log of its own: chain 1 holds what was done one after the other. */
export interface Log {
  readonly organizationId: string;
  readonly admin: Client;
  readonly projectId: string;
  readonly secretId: string;
}

/** A new organization whose log has eleven events, of which the last eight are reads of a value. */
export async function newLog(server: TestServer): Promise<Log> {
  const { admin, organizationId, projectId } = await server.otherOrganization();
  const { id: secretId } = await server.secret({ project_id: projectId }, admin);
  for (let read = 0; read < 8; read += 1) await admin.rest("GET", `/api/v1/secrets/${secretId}`);
  return { organizationId, admin, projectId, secretId };
}

/** Twelve events at once, of reads and of changes, so that the log gets several chains. */
export async function writeAtOnce({ admin, secretId, projectId }: Log): Promise<void> {
  const calls = Array.from({ length: 6 }, () => [
    admin.rest("GET", `/api/v1/secrets/${secretId}`),
    admin.rest("POST", "/api/v1/secrets", { project_id: projectId, key: randomUUID(), value: "v" }),
  ]);
  for (const { status } of await Promise.all(calls.flat())) if (status >= 300) throw new Error(`answered ${status}`);
}

/** Runs a statement with triggers off, as only a superuser may. `$1` is the organization. */
export async function tamper(server: TestServer, { organizationId }: Log, statement: string): Promise<void> {
  const client = new pg.Client(superuserUrl(server.databaseUrl));
  await client.connect();
  try {
    await client.query("set session_replication_role = replica");
    const { rowCount } = await client.query(statement, [organizationId]);
    if (rowCount === 0) throw new Error(`nothing to tamper with: ${statement}`);
  } finally {
    await client.end();
  }
}

/** What verify answers about the log: "intact", or the place and what is wrong there, as in "1/3 changed". */
export async function verdict({ admin }: Log): Promise<string> {
  const { status, body } = await admin.rest("GET", "/api/v1/audit-logs/verify");
  if (status !== 200) return `${status} ${JSON.stringify(body)}`;
  if (body.valid) return "intact";
  return `${body.broken_chain}/${body.broken_at} ${body.broken_reason}`;
}

/** The same of an export, with nothing but the file and the key. `checkpoint` is an earlier answer of verify. */
export async function verdictOffline(server: TestServer, log: Log, checkpoint?: object): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-export-"));
  try {
    const file = join(folder, "export.ndjson");
    await writeFile(file, await exportOf(log));
    const { key: installationKey } = await installationChainKey(server.server.core.seal);
    const keys = [organizationChainKey(installationKey, log.organizationId)];
    const ends = checkpoint === undefined ? [] : readCheckpoint(JSON.stringify(checkpoint));
    return textOf((await verifyExport(file, keys, ends)).broken);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Every line of the export. The first try fails where the end of a chain is not where the server left it. */
async function exportOf({ admin }: Log): Promise<string> {
  const first = await admin.rest("GET", "/api/v1/audit-logs/export");
  const { status, body } = first.status === 503 ? await admin.rest("GET", "/api/v1/audit-logs/export") : first;
  if (status !== 200) throw new Error(`the export was answered ${status}`);
  return body;
}

const textOf = (broken: Break | undefined) =>
  broken === undefined ? "intact" : `${broken.chain}/${broken.sequence} ${broken.reason}`;
