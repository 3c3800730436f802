import { randomUUID } from "node:crypto";
import type { Answer, Client } from "../../harness/client.ts";
import type { TestServer } from "../../harness/server.ts";

/** The path of the certificate authorities, or of one of them. */
export const authoritiesPath = (id?: string, query = ""): string =>
  `/api/v1/certificate-authorities${id === undefined ? "" : `/${id}`}${query}`;

/** A record of an authority, as a client sees it. */
export type AuthorityRecord = Answer["body"];

/** Certificate authorities of a server, as clients see them. */
export class Authorities {
  readonly #server: TestServer;

  constructor(server: TestServer) {
    this.#server = server;
  }

  /** A root with a name of its own, unless other fields are given. */
  post(fields: Record<string, unknown> = {}, by: Client = this.#server.admin, headers = {}): Promise<Answer> {
    const name = `authority-${randomUUID()}`;
    const given = { name, type: "root", subject: { common_name: "Example Root" }, ...fields };
    return by.rest("POST", authoritiesPath(), given, headers);
  }

  async root(fields: Record<string, unknown> = {}, by: Client = this.#server.admin): Promise<AuthorityRecord> {
    const { status, body } = await this.post(fields, by);
    if (status !== 201) throw new Error(`no authority: ${JSON.stringify(body)}`);
    return body;
  }

  /** An intermediate below another authority. */
  below(parent: AuthorityRecord, fields: Record<string, unknown> = {}, by?: Client): Promise<AuthorityRecord> {
    return this.root({ ...intermediateOf(parent), ...fields }, by);
  }

  async get(id: string, by: Client = this.#server.admin): Promise<AuthorityRecord> {
    return (await by.rest("GET", authoritiesPath(id))).body;
  }

  put(id: string, body: unknown, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("PUT", authoritiesPath(id), body);
  }

  revoke(id: string, body: unknown = {}, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("POST", `${authoritiesPath(id)}/revoke`, body);
  }

  /** Lets its certificate have ended a minute ago. */
  async expire(id: string): Promise<void> {
    await this.#server.sql("update certificate_authority set not_after = now() - interval '1 minute' where id = $1", [
      id,
    ]);
  }

  /** What its issuer says of its certificate. */
  async statusOf({ id, parent_id: parentId, serial_number: serialNumber }: AuthorityRecord) {
    const [row] = await this.#server.sql(
      `select not_after, revoked_at, revocation_reason from certificate_status where ca_id = $1 and serial_number = $2`,
      [parentId ?? id, serialNumber],
    );
    return row;
  }
}

/** What makes an authority one below another. */
export const intermediateOf = (parent: AuthorityRecord) => ({
  type: "intermediate",
  parent_id: parent.id,
  subject: { common_name: "Example Issuing CA" },
});
