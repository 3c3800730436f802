import { SyncWorker } from "../../../src/server/links/sync-worker.ts";
import type { Answer, Client } from "../../harness/client.ts";
import { eventually } from "../../harness/program.ts";
import { Receiver } from "../../harness/receiver.ts";
import type { TestServer } from "../../harness/server.ts";

/** The path of the links of a secret, or of one of them. */
export const linksPath = (secretId: string, linkId?: string): string =>
  `/api/v1/secrets/${secretId}/links${linkId === undefined ? "" : `/${linkId}`}`;

/** Every field of a link that an answer holds. */
export const linkKeys = [
  "id",
  "secret_id",
  "integration",
  "name",
  "environment",
  "config",
  "has_credentials",
  "sync_enabled",
  "status",
  "last_synced",
  "version",
  "last_error",
  "created_by",
  "created_at",
  "updated_at",
] as const;

/** A link to a webhook there. */
export const toWebhook = (url: string, fields: Record<string, unknown> = {}) => ({
  integration: "webhook",
  config: { url },
  ...fields,
});

/** A record of a link, as a client sees it. */
export type LinkRecord = Answer["body"];

/** Links of a server, as clients see them, and the workers that serve them. */
export class Links {
  readonly #server: TestServer;
  readonly #workers: SyncWorker[] = [];
  readonly #receivers: Receiver[] = [];

  /** All that it starts ends with the server. */
  constructor(server: TestServer) {
    this.#server = server;
    after(async () => {
      await Promise.all(this.#workers.map((worker) => worker.stop()));
      await Promise.all(this.#receivers.map((receiver) => receiver.stop()));
    });
  }

  /** A worker of its own, as each replica has one; looks by itself only when somebody says so. */
  work(pollMs = 1000): SyncWorker {
    const worker = new SyncWorker(this.#server.server.core, pollMs);
    this.#workers.push(worker);
    worker.start();
    return worker;
  }

  /** A worker for the tests of the surrounding `describe`. */
  useWorker(pollMs?: number): void {
    let worker: SyncWorker;
    before(() => {
      worker = this.work(pollMs);
    });
    after(() => worker.stop());
  }

  async receiver(): Promise<Receiver> {
    const receiver = await Receiver.start();
    this.#receivers.push(receiver);
    return receiver;
  }

  post(secretId: string, body: unknown, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("POST", linksPath(secretId), body);
  }

  put({ secret_id, id }: LinkRecord, body: unknown, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("PUT", linksPath(secret_id, id), body);
  }

  delete({ secret_id, id }: LinkRecord, query = ""): Promise<Answer> {
    return this.#server.admin.rest("DELETE", `${linksPath(secret_id, id)}${query}`);
  }

  async get({ secret_id, id }: LinkRecord): Promise<LinkRecord> {
    return (await this.#server.admin.rest("GET", linksPath(secret_id, id))).body;
  }

  /** A new secret with a link. */
  async of(link: Record<string, unknown>, secret: Record<string, unknown> = {}): Promise<LinkRecord> {
    const { id } = await this.#server.secret(secret);
    const { status, body } = await this.post(id, link);
    if (status !== 201) throw new Error(`no link: ${JSON.stringify(body)}`);
    return body;
  }

  /** The link once it is so. */
  async once(link: LinkRecord, what: string, is: (link: LinkRecord) => boolean): Promise<LinkRecord> {
    return eventually(`the link is ${what}`, async () => {
      const now = await this.get(link);
      return is(now) ? now : undefined;
    });
  }

  /** The link once a version is confirmed. */
  synced(link: LinkRecord, version = 1): Promise<LinkRecord> {
    return this.once(link, `synced at ${version}`, (now) => now.status === "synced" && now.version === version);
  }

  /** The link once an attempt has failed. */
  failed(link: LinkRecord): Promise<LinkRecord> {
    return this.once(link, "failed", ({ status }) => status === "failed");
  }

  async write(link: LinkRecord, value: string): Promise<void> {
    const { status } = await this.#server.admin.rest("PUT", `/api/v1/secrets/${link.secret_id}`, { value });
    if (status !== 200) throw new Error(`the secret was not written: ${status}`);
  }

  /** Its time comes: what waits for another try, or for somebody who does not come back. */
  async letTimePass(link: LinkRecord): Promise<void> {
    await this.#server.sql("update secret_link set due_at = now() where id = $1 and due_at is not null", [link.id]);
  }

  /** What the audit log holds of attempts, the oldest first, as in "success 2". */
  async attempts({ id }: LinkRecord): Promise<string[]> {
    const rows = await this.#server.sql(
      `select outcome, details::jsonb ->> 'version' as version from audit_event
       where action = 'secret.sync' and details::jsonb ->> 'link_id' = $1 order by occurred_at, id`,
      [id],
    );
    return rows.map(({ outcome, version }) => `${outcome} ${version}`);
  }
}
