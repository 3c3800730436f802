import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import type { Client } from "../harness/client.ts";

interface Kept {
  readonly id: string;
  /** The value of each version that was acknowledged. */
  readonly acknowledged: Map<number, string>;
}

/** Callers that create, update and read, and remember what was acknowledged, until the server goes away. */
export class Load {
  readonly #projectId: string;
  readonly #random: () => number;
  readonly #secrets: Kept[] = [];
  /** Request ids of acknowledged calls, with the audit action that each of them must have. */
  readonly #recorded = new Map<string, string>();
  readonly #strange: string[] = [];
  #stopping = false;
  /** Of the slowest answer so far. */
  slowestMs = 0;
  /** Answers that were not given: 503. */
  refused = 0;

  constructor(projectId: string, random: () => number) {
    this.#projectId = projectId;
    this.#random = random;
  }

  get acknowledged(): number {
    return this.#recorded.size;
  }

  /** Runs `callers` callers until `stop`; a call that got no answer ends its caller. */
  async run(client: Client, callers: number): Promise<void> {
    this.#stopping = false;
    await Promise.all(Array.from({ length: callers }, () => this.#call(client)));
  }

  stop(): void {
    this.#stopping = true;
  }

  async #call(client: Client): Promise<void> {
    while (!this.#stopping) {
      try {
        await this.#step(client);
      } catch {
        return;
      }
    }
  }

  async #step(client: Client): Promise<void> {
    const dice = this.#random();
    const secret = this.#secrets[Math.floor(this.#random() * this.#secrets.length)];
    if (secret === undefined || dice < 0.3) {
      const value = randomBytes(12).toString("hex");
      const body = { key: `k-${value}`, value, project_id: this.#projectId };
      const created = await this.#send(client, "secret.create", "POST", "/api/v1/secrets", body);
      if (created !== undefined) this.#secrets.push({ id: created.id, acknowledged: new Map([[1, value]]) });
    } else if (dice < 0.6) {
      const value = randomBytes(12).toString("hex");
      const updated = await this.#send(client, "secret.update", "PUT", `/api/v1/secrets/${secret.id}`, { value });
      if (updated !== undefined) secret.acknowledged.set(updated.version, value);
    } else {
      const read = await this.#send(client, "secret.read_value", "GET", `/api/v1/secrets/${secret.id}`);
      const expected = read && secret.acknowledged.get(read.version);
      if (expected !== undefined && expected !== read.value)
        this.#strange.push(`${secret.id}: ${JSON.stringify(read)}`);
    }
  }

  // oxlint-disable-next-line typescript/no-explicit-any
  async #send(client: Client, action: string, method: string, path: string, body?: unknown): Promise<any> {
    const requestId = `load-${randomBytes(8).toString("hex")}`;
    const start = performance.now();
    const answer = await client.rest(method, path, body, { "x-request-id": requestId });
    this.slowestMs = Math.max(this.slowestMs, performance.now() - start);
    if (answer.status < 300) {
      this.#recorded.set(requestId, action);
      return answer.body;
    }
    if (answer.status === 503) {
      this.refused += 1;
      await sleep(20);
    } else this.#strange.push(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return undefined;
  }

  /** What was acknowledged is there, what was answered is recorded, and nothing is half made. */
  async verify(client: Client, databaseUrl: string): Promise<void> {
    expect(this.#strange).to.deep.equal([]);
    await this.#verifyValues(client);
    const db = new pg.Client(databaseUrl);
    await db.connect();
    try {
      await this.#verifyAudit(db);
      expect(await findHalves(db)).to.deep.equal([]);
    } finally {
      await db.end();
    }
  }

  async #verifyValues(client: Client): Promise<void> {
    const lost: string[] = [];
    for (let at = 0; at < this.#secrets.length; at += 20) {
      await Promise.all(this.#secrets.slice(at, at + 20).map((secret) => this.#verifySecret(client, secret, lost)));
    }
    expect(lost).to.deep.equal([]);
  }

  async #verifySecret(client: Client, { id, acknowledged }: Kept, lost: string[]): Promise<void> {
    for (const [version, value] of acknowledged) {
      const { status, body } = await client.rest("GET", `/api/v1/secrets/${id}?version=${version}`);
      if (status !== 200 || body.value !== value) lost.push(`${id} version ${version}: ${status}`);
    }
    const { body: current } = await client.rest("GET", `/api/v1/secrets/${id}`);
    if (!(current.version >= Math.max(...acknowledged.keys()))) lost.push(`${id} is at version ${current.version}`);
  }

  async #verifyAudit(db: pg.Client): Promise<void> {
    const { rows } = await db.query<{ request_id: string; action: string }>(
      "select request_id, action from audit_event where outcome = 'success' and request_id like 'load-%'",
    );
    const found = new Map(rows.map(({ request_id, action }) => [request_id, action]));
    const missing = [...this.#recorded].filter(([requestId, action]) => found.get(requestId) !== action);
    expect(missing).to.deep.equal([]);
  }
}

/** Secrets without their version or key, versions with a gap, and changes that nobody is recorded to have made. */
async function findHalves(db: pg.Client): Promise<unknown[]> {
  const { rows } = await db.query(`
    select 'no current version' as what, id::text from secret s
      where not exists (select from secret_version v where v.secret_id = s.id and v.version = s.version)
    union all select 'no key', id::text from secret s where not exists (select from data_key k where k.record_id = s.id)
    union all select 'key of nothing', record_id::text from data_key k where not exists (
        select from secret s where s.id = k.record_id union all select from user_account u where u.id = k.record_id)
    union all select 'gap', s.id::text from secret s
      where s.version <> (select count(*) from secret_version v where v.secret_id = s.id)
         or s.version <> (select max(version) from secret_version v where v.secret_id = s.id)
    union all select 'unrecorded change', v.secret_id || '/' || v.version from secret_version v
      where not exists (select from audit_event a where a.resource_id = v.secret_id::text and a.outcome = 'success'
        and a.action in ('secret.create', 'secret.update') and (a.details::jsonb ->> 'version')::int = v.version)`);
  return rows;
}
