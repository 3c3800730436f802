import { readFile } from "node:fs/promises";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  type Certificate,
  CertificateSchema,
  CertificateService,
} from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { allPages } from "../../client/pages.ts";
import { askConsent, readStandardInput } from "../ask.ts";
import { alternativeNamesText, dateText, keyText, type NameOptions, nameText, subjectOf } from "../certificate-text.ts";
import type { Json } from "../commands/options.ts";
import { usage } from "../failure.ts";
import { findProjectId } from "../find.ts";
import { findAuthorityId, findCertificateId } from "../find-certificate.ts";
import { note, print, printRecord, printRecords, printRestRecord, timeText } from "../output.ts";
import { OwnerFile, writeOwnerFile } from "../owner-file.ts";
import { openSession } from "../session.ts";

export interface IssueOptions extends Json, NameOptions {
  readonly ca: string;
  readonly csr?: string;
  readonly key?: string;
  readonly output?: string;
  readonly dns?: string[];
  readonly ip?: string[];
  readonly email?: string[];
  readonly uri?: string[];
  readonly profile?: string;
  readonly algorithm?: string;
  readonly size?: number;
  readonly days?: number;
  readonly project?: string;
  readonly autoRenew?: boolean;
}
export interface ListCertificatesOptions extends Json {
  readonly ca?: string;
  readonly project?: string;
  readonly status?: string;
  readonly expiresBefore?: Date;
  readonly search?: string;
}
export interface UpdateCertificateOptions extends Json {
  readonly autoRenew?: boolean;
}
export interface RenewOptions extends Json {
  readonly csr?: string;
  readonly days?: number;
  readonly output?: string;
}
export interface RevokeOptions extends Json {
  readonly reason?: string;
  readonly yes?: boolean;
}
export interface DownloadCertificateOptions {
  readonly output?: string;
  readonly format?: string;
}

/**
 * Prints the certificate with its chain, or writes it to a file. A key that the server makes is shown this once: it goes
 * to a file that is made sure of before, or into the JSON that was asked for.
 */
export async function issue(options: IssueOptions): Promise<void> {
  const { csr, key, json } = options;
  if (csr === undefined && key === undefined && !json) {
    throw usage("the key is shown this once: name a file for it with --key, or bring a request of your own with --csr");
  }
  if (csr === undefined && json && process.stdout.isTTY)
    throw usage("keys are not for a terminal; name a file with --key");
  const csrPem = csr === undefined ? undefined : await readText(csr);
  const keyFile = key === undefined ? undefined : await OwnerFile.open(key);
  const certificate = await requestCertificate(openSession(), csrPem, options).catch(async (error: unknown) => {
    await keyFile?.abandon();
    throw error;
  });
  if (keyFile !== undefined) {
    await keyFile.write(certificate.privateKeyPem ?? "").catch((error: unknown) => {
      note(`the key is lost: revoke the certificate with holdfast cert revoke ${certificate.id}`);
      throw error;
    });
    note(`wrote ${key}, for its owner only`);
  }
  // What is in the file is shown nowhere else.
  if (keyFile !== undefined) delete certificate.privateKeyPem;
  await give(certificate, options);
}

async function requestCertificate(api: Api, csrPem: string | undefined, options: IssueOptions): Promise<Certificate> {
  const { dns = [], ip = [], email = [], uri = [], profile, algorithm, size, days, project, autoRenew } = options;
  const hasSubject = Object.values(subjectOf(options)).some((value) => value !== "");
  return api(CertificateService).issueCertificate({
    caId: await findAuthorityId(api, options.ca),
    csrPem,
    profile,
    keyAlgorithm: algorithm,
    keySize: size,
    validityDays: days,
    autoRenew: autoRenew === true,
    ...(hasSubject && { subject: subjectOf(options) }),
    ...([dns, ip, email, uri].some(({ length }) => length > 0) && {
      subjectAlternativeNames: { dns, ip, email, uri },
    }),
    ...(project !== undefined && { projectId: await findProjectId(api, project) }),
  });
}

export async function list({ ca, project, status, expiresBefore, search, ...options }: ListCertificatesOptions) {
  const api = openSession();
  const filters = {
    status,
    search,
    ...(ca !== undefined && { caId: await findAuthorityId(api, ca) }),
    ...(project !== undefined && { projectId: await findProjectId(api, project) }),
    ...(expiresBefore && { expiresBefore: timestampFromDate(expiresBefore) }),
  };
  printRecords(
    CertificateSchema,
    await allPages((page) => api(CertificateService).listCertificates({ ...filters, ...page })),
    [
      ["SUBJECT", ({ subject }) => nameText(subject)],
      ["NAMES", ({ subjectAlternativeNames }) => alternativeNamesText(subjectAlternativeNames)],
      ["STATUS", ({ status }) => status],
      ["KEY", keyText],
      ["EXPIRES", ({ notAfter }) => timeText(notAfter)],
      ["RENEWS", ({ autoRenew }) => (autoRenew ? "by itself" : "")],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function get(reference: string, options: Json): Promise<void> {
  const api = openSession();
  const id = await findCertificateId(api, reference);
  show(await api(CertificateService).getCertificate({ id }), options);
}

export async function update(reference: string, { autoRenew, ...options }: UpdateCertificateOptions): Promise<void> {
  if (autoRenew === undefined) throw usage("nothing to change: give --auto-renew or --no-auto-renew");
  const api = openSession();
  const id = await findCertificateId(api, reference);
  show(await api(CertificateService).updateCertificate({ id, autoRenew }), options);
}

/** Prints the successor with its chain, or writes it to a file. */
export async function renew(reference: string, options: RenewOptions): Promise<void> {
  const csrPem = options.csr === undefined ? undefined : await readText(options.csr);
  const api = openSession();
  const id = await findCertificateId(api, reference);
  await give(await api(CertificateService).renewCertificate({ id, csrPem, validityDays: options.days }), options);
}

export async function revoke(reference: string, { reason, yes, ...options }: RevokeOptions): Promise<void> {
  const api = openSession();
  const id = await findCertificateId(api, reference);
  if (!yes && !(await askConsent(`Revoke ${reference} for good?`, "agree with --yes"))) {
    return note("nothing was revoked");
  }
  show(await api(CertificateService).revokeCertificate({ id, reason }), options);
}

/** Gives the very bytes of the file. */
export async function download(reference: string, { format, output }: DownloadCertificateOptions): Promise<void> {
  if (format === "der" && output === undefined && process.stdout.isTTY) {
    throw usage("DER is not for a terminal; name a file with --output");
  }
  const api = openSession();
  const id = await findCertificateId(api, reference);
  const pieces: Uint8Array[] = [];
  for await (const { data } of api(CertificateService).downloadCertificate({ id, format })) pieces.push(data);
  if (output === undefined) return print(Buffer.concat(pieces));
  await writeOwnerFile(output, Buffer.concat(pieces));
  note(`wrote ${output}`);
}

/** A file, or standard input for "-". */
async function readText(file: string): Promise<string> {
  if (file === "-") return (await readStandardInput()).toString("utf8");
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw usage(`cannot read ${file} (${error.code})`);
  });
}

/** A new certificate: its chain where it was asked for, and what it is on standard error. */
async function give(certificate: Certificate, { json, output }: { readonly json?: boolean; readonly output?: string }) {
  const { id, certificatePem, chainPem, notAfter } = certificate;
  if (output !== undefined) await writeOwnerFile(output, certificatePem + chainPem);
  if (json) return printRestRecord(CertificateSchema, certificate);
  const where = output === undefined ? "" : `; wrote ${output}`;
  note(`issued ${nameOf(certificate)}: ${id}; valid until ${dateText(notAfter)}${where}`);
  if (output === undefined) print(certificatePem + chainPem);
}

const nameOf = ({ subject, subjectAlternativeNames }: Certificate): string =>
  nameText(subject) || alternativeNamesText(subjectAlternativeNames);

function show(certificate: Certificate, options: Json): void {
  printRecord(
    CertificateSchema,
    certificate,
    [
      ["subject", ({ subject }) => nameText(subject)],
      ["names", ({ subjectAlternativeNames }) => alternativeNamesText(subjectAlternativeNames)],
      ["id", ({ id }) => id],
      ["status", ({ status }) => status],
      ["revoked", ({ revokedAt, revocationReason }) => `${timeText(revokedAt)} ${revocationReason ?? ""}`.trimEnd()],
      ["authority", ({ caId }) => caId],
      ["project", ({ projectId }) => projectId ?? "-"],
      ["profile", ({ profile }) => profile],
      ["key", keyText],
      ["serial number", ({ serialNumber }) => serialNumber],
      ["fingerprint", ({ fingerprintSha256 }) => fingerprintSha256],
      ["not before", ({ notBefore }) => timeText(notBefore)],
      ["not after", ({ notAfter }) => timeText(notAfter)],
      ["renews by itself", ({ autoRenew }) => (autoRenew ? "yes" : "no")],
      ["renewal of", ({ renewalOf }) => renewalOf ?? "-"],
      ["renewed by", ({ renewedBy }) => renewedBy ?? "-"],
      ["issued", ({ createdAt }) => timeText(createdAt)],
    ],
    options,
  );
}
