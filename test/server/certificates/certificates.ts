import "reflect-metadata";
import { webcrypto, X509Certificate } from "node:crypto";
import {
  cryptoProvider,
  type GeneralNameType,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from "@peculiar/x509";
import type { Answer, Client } from "../../harness/client.ts";
import type { TestServer } from "../../harness/server.ts";

cryptoProvider.set(webcrypto as never);

/** The path of the certificates, or of one of them. */
export const certificatesPath = (id?: string, rest = ""): string =>
  `/api/v1/certificates${id === undefined ? "" : `/${id}`}${rest}`;

/** A record of a certificate, as a client sees it. */
export type CertificateRecord = Answer["body"];

export const parsed = ({ certificate_pem: pem }: CertificateRecord): X509Certificate => new X509Certificate(pem);

export const noNames = { dns: [], ip: [], email: [], uri: [] };

/** Certificates of a server, as clients see them. */
export class Certificates {
  readonly #server: TestServer;

  constructor(server: TestServer) {
    this.#server = server;
  }

  /** Asks for a server's certificate for a name, unless other fields are given. */
  post(fields: Record<string, unknown>, by: Client = this.#server.admin, headers = {}): Promise<Answer> {
    const names = "csr_pem" in fields ? {} : { subject: { common_name: "www.example.com" } };
    return by.rest("POST", certificatesPath(), { ...names, ...fields }, headers);
  }

  async issued(fields: Record<string, unknown>, by: Client = this.#server.admin): Promise<CertificateRecord> {
    const { status, body } = await this.post(fields, by);
    if (status !== 201) throw new Error(`no certificate: ${JSON.stringify(body)}`);
    return body;
  }

  async get(id: string, by: Client = this.#server.admin): Promise<CertificateRecord> {
    return (await by.rest("GET", certificatesPath(id))).body;
  }

  put(id: string, body: unknown, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("PUT", certificatesPath(id), body);
  }

  revoke(id: string, body: unknown = {}, by: Client = this.#server.admin): Promise<Answer> {
    return by.rest("POST", certificatesPath(id, "/revoke"), body);
  }

  renew(id: string, body: unknown = {}, by: Client = this.#server.admin, headers = {}): Promise<Answer> {
    return by.rest("POST", certificatesPath(id, "/renew"), body, headers);
  }

  async list(query = "", by: Client = this.#server.admin) {
    return (await by.rest("GET", certificatesPath(undefined, query === "" ? "" : `?${query}`))).body;
  }

  /** What its authority says of it. */
  async statusOf({ ca_id: caId, serial_number: serialNumber }: CertificateRecord) {
    const [row] = await this.#server.sql(
      "select not_after, revoked_at, revocation_reason from certificate_status where ca_id = $1 and serial_number = $2",
      [caId, serialNumber],
    );
    return row;
  }

  /** Adds so many like it, which differ in id and serial number, issued by "copy". */
  async copy(id: string, many: number): Promise<void> {
    const same = `organization_id, ca_id, project_id, subject, subject_alternative_names, key_algorithm, key_size, profile,
      certificate, fingerprint_sha256, public_key_sha256, not_before, not_after, auto_renew, renew_at, created_at`;
    await this.#server.sql(
      `with copied as (
         insert into certificate (${same}, serial_number, created_by)
         select ${same}, lpad(to_hex(n), 40, '0'), 'copy' from certificate, generate_series(1, $2::int) n where id = $1
         returning ca_id, serial_number, organization_id, not_after)
       insert into certificate_status (ca_id, serial_number, organization_id, not_after) select * from copied`,
      [id, many],
    );
  }

  /** How many certificates there are, with and without their statuses. */
  async counts() {
    const [counts] = await this.#server.sql(
      `select (select count(*)::int from certificate) as certificates,
         (select count(*)::int from certificate_status) as statuses`,
    );
    return counts;
  }

  /** Lets it have been issued so much earlier: as told by the database, not by the certificate itself. */
  async age(id: string, days: number): Promise<void> {
    const moved = ["not_before", "not_after", "renew_at", "expiring_at", "created_at"]
      .map((column) => `${column} = ${column} - make_interval(secs => 86400 * $2::float8)`)
      .join(", ");
    await this.#server.sql(`update certificate set ${moved} where id = $1`, [id, days]);
  }

  /** Audit events about it, the oldest first. */
  async events(id: string, action: string) {
    const rows = await this.#server.sql(
      "select * from audit_event where resource_id = $1 and action = $2 order by occurred_at, id",
      [id, action],
    );
    return rows.map((row) => ({ ...row, details: JSON.parse(row.details) }));
  }
}

/** The message of each fault that an answer tells, by field. */
export const faultsOf = ({ body }: Answer): Record<string, string> =>
  Object.fromEntries(
    body.error.details.map(({ field, message }: { field: string; message: string }) => [field, message]),
  );

/** A certificate signing request for a new key on P-256, and that key in PKCS #8. */
export async function newCsr(
  subject = "CN=csr.example.com",
  names: readonly (readonly [GeneralNameType, string])[] = [],
) {
  const keys = await webcrypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
  const csr = await csrOf(keys, subject, names);
  const privateKey = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
  return { csr, keys, privateKey };
}

/** A certificate signing request for a key. */
export async function csrOf(
  keys: webcrypto.CryptoKeyPair,
  subject = "CN=csr.example.com",
  names: readonly (readonly [GeneralNameType, string])[] = [],
): Promise<string> {
  const request = await Pkcs10CertificateRequestGenerator.create({
    name: subject,
    keys: keys as never,
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    extensions:
      names.length === 0 ? [] : [new SubjectAlternativeNameExtension(names.map(([type, value]) => ({ type, value })))],
  });
  return `${request.toString("pem")}\n`;
}
