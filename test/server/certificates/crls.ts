import "reflect-metadata";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { X509Crl } from "@peculiar/x509";
import { buildCrl } from "../../../src/server/certificates/crl-build.ts";
import { CrlBuilder } from "../../../src/server/certificates/crl-builder.ts";
import { CrlClaim } from "../../../src/server/certificates/crl-claim.ts";
import { millis } from "../../../src/server/db/columns.ts";
import type { Queries } from "../../../src/server/db/database.ts";
import { eventually } from "../../harness/program.ts";
import type { TestServer } from "../../harness/server.ts";
import { type AuthorityRecord, authoritiesPath } from "./authorities.ts";

/** A row of table crl; times in milliseconds since 1970. */
export interface CrlRow {
  readonly number: number;
  readonly this_update: number | null;
  readonly next_update: number | null;
  readonly size: number;
  readonly sha256: string;
  readonly entries: number;
  readonly due_at: number;
  readonly claim_id: string | null;
  readonly claimed_until: number | null;
}

/** Revocation lists of a server whose process runs no jobs: they are built where a test says so. */
export class Crls {
  readonly #server: TestServer;

  constructor(server: TestServer) {
    this.#server = server;
  }

  /** Builds what is due, as a replica that runs jobs does, but looks for it more often. */
  builder(pollMs = 20): CrlBuilder {
    const builder = new CrlBuilder(this.#server.server.core, pollMs);
    this.#server.beforeStop(() => void builder.stop());
    builder.start();
    return builder;
  }

  /** Claims what is due and builds it once. */
  async build(db: Queries = this.#server.server.core.db, signal = new AbortController().signal) {
    const claim = await CrlClaim.next(db);
    if (claim === undefined) throw new Error("no list is due");
    return buildCrl({ db, seal: this.#server.server.core.seal }, claim, signal);
  }

  /** Makes a list due, and no other. */
  async makeDue(id: string): Promise<void> {
    await this.#server.server.core.db.pool.query(
      `update crl set claim_id = null, claimed_until = null,
         due_at = case when ca_id = $1 then now() - interval '1 second' else now() + interval '1 day' end`,
      [id],
    );
  }

  /** Builds the next list of an authority. */
  async rebuild(id: string) {
    await this.makeDue(id);
    return this.build();
  }

  async row(id: string): Promise<CrlRow> {
    const {
      rows: [row],
    } = await this.#server.server.core.db.pool.query(
      `select number::float8, size::int, sha256, entries, claim_id,
         ${["this_update", "next_update", "due_at", "claimed_until"].map((column) => `${millis(column)} as ${column}`).join()}
       from crl where ca_id = $1`,
      [id],
    );
    return row;
  }

  /** The row, once there is a list after the one of this number; 0 stands for none. */
  builtAfter(number: number, id: string): Promise<CrlRow> {
    return eventually(`a list of ${id} after ${number}`, async () => {
      const row = await this.row(id);
      return row.number > number ? row : undefined;
    });
  }

  /** Has so many certificates that the authority never issued be revoked, as far as lists are concerned. */
  async addRevoked(id: string, count: number, notAfter = "1 year", serials = "random()::text || n"): Promise<void> {
    await this.#server.sql(
      `insert into certificate_status (ca_id, serial_number, organization_id, not_after, revoked_at, revocation_reason)
       select a.id, '4' || substr(encode(sha256((${serials})::bytea), 'hex'), 1, 39), a.organization_id,
         now() + $3::interval, now() - interval '1 minute', 'superseded'
       from certificate_authority a, generate_series(1, $2) n where a.id = $1`,
      [id, count, notAfter],
    );
  }

  async download(id: string, { query = "", method = "GET", by = this.#server.admin } = {}) {
    const headers = { authorization: `Bearer ${by.token}` };
    const response = await fetch(`${this.#server.url}${authoritiesPath(id)}/crl${query}`, { method, headers });
    const bytes = Buffer.from(await response.arrayBuffer());
    return { status: response.status, headers: response.headers, bytes };
  }

  /** The list as a client downloads it, read. */
  async parsed(id: string): Promise<X509Crl> {
    return new X509Crl((await this.download(id)).bytes);
  }

  /** The serial numbers on the list. */
  async serials(id: string): Promise<string[]> {
    return (await this.parsed(id)).entries.map(({ serialNumber }) => serialNumber);
  }

  /** What openssl says of a list in DER and of its signature by the authority. */
  openssl(crl: Buffer, { certificate_pem }: AuthorityRecord): { verified: boolean; text: string } {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
    try {
      writeFileSync(join(folder, "ca.pem"), certificate_pem);
      const args = ["crl", "-inform", "DER", "-noout", "-text", "-verify", "-CAfile", join(folder, "ca.pem")];
      const { stdout, stderr } = spawnSync("openssl", args, { input: crl, encoding: "utf8", maxBuffer: 2 ** 28 });
      return { verified: stderr.includes("verify OK"), text: stdout };
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
}

/** Whether this machine has no openssl, which some tests are judged by. */
type Interference = (count: number, text: string, values: readonly unknown[]) => Promise<void>;

/** Statements that a test interferes with: `before` each one, and `after` it was done. Both know the how-manieth it is. */
export function interferingWith(
  db: Queries,
  {
    before = async () => {},
    after = async () => {},
  }: { readonly before?: Interference; readonly after?: Interference },
): Queries {
  let count = 0;
  return {
    async query<Row>(text: string, values: readonly unknown[]): Promise<Row[]> {
      count += 1;
      const mine = count;
      await before(mine, text, values);
      const rows = await db.query<Row>(text, values);
      await after(mine, text, values);
      return rows;
    },
  };
}
