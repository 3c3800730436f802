import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  type Certificate,
  CertificateSchema,
  CertificateService,
} from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { allPages } from "../../client/pages.ts";
import { askConsent, readStandardInput } from "../ask.ts";
import {
  alternativeNamesText,
  dateText,
  keyText,
  type NameOptions,
  nameText,
  pemText,
  subjectOf,
} from "../certificate-text.ts";
import type { Json } from "../commands/options.ts";
import { Failure, usage } from "../failure.ts";
import { findProjectId } from "../find.ts";
import { findAuthorityId, findCertificateId } from "../find-certificate.ts";
import { note, print, printRecord, printRecords, printRestRecord, timeText } from "../output.ts";
import { OwnerFile, writeOwnerFile } from "../owner-file.ts";
import { openSession } from "../session.ts";

export interface IssueOptions extends Json, NameOptions {
  readonly ca: string;
  readonly csr?: string;
  readonly key?: string;
  readonly force?: boolean;
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
 * to a file, or into the JSON that was asked for. Files are made sure of before anything is issued.
 */
export async function issue(options: IssueOptions): Promise<void> {
  const { csr, key, json, output } = options;
  if (csr === undefined && key === undefined && !json) {
    throw usage("the key is shown this once: name a file for it with --key, or bring a request of your own with --csr");
  }
  if (csr === undefined && json && process.stdout.isTTY)
    throw usage("keys are not for a terminal; name a file with --key");
  if (key !== undefined && output !== undefined && resolve(key) === resolve(output))
    throw usage("--key and --output name the same file");
  const csrPem = csr === undefined ? undefined : await readText(csr);
  await using keyFile = await placeForKey(options);
  await using place = await placeFor(output);
  const certificate = await requestCertificate(openSession(), csrPem, options);
  if (keyFile !== undefined) {
    await writeKey(keyFile, certificate);
    note(`wrote ${key}, for its owner only`);
    // What is in the file is shown nowhere else.
    delete certificate.privateKeyPem;
  }
  await give(certificate, options, place);
}

/** A key that is there may be the only one of its kind. */
async function placeForKey({ key, force }: IssueOptions): Promise<OwnerFile | undefined> {
  if (key === undefined) return undefined;
  return force
    ? OwnerFile.replace(key)
    : OwnerFile.create(key, "name another file with --key, or replace it with --force");
}

const placeFor = async (file: string | undefined) => (file === undefined ? undefined : OwnerFile.replace(file));

async function writeKey(file: OwnerFile, { id, privateKeyPem }: Certificate): Promise<void> {
  try {
    if (!privateKeyPem) throw new Failure("unexpected", "the server answered without a key");
    await file.write(pemText(privateKeyPem));
  } catch (error) {
    note(`the key is lost: revoke the certificate with holdfast cert revoke ${id}`);
    throw error;
  }
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
  await using place = await placeFor(options.output);
  const api = openSession();
  const id = await findCertificateId(api, reference);
  const successor = await api(CertificateService).renewCertificate({ id, csrPem, validityDays: options.days });
  await give(successor, options, place);
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
  const bytes = Buffer.concat(pieces);
  const content = format === "der" ? bytes : pemText(bytes.toString("latin1"));
  if (output === undefined) return print(content);
  await writeOwnerFile(output, content);
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
async function give(
  certificate: Certificate,
  { json, output }: { readonly json?: boolean; readonly output?: string },
  place: OwnerFile | undefined,
) {
  const { id, certificatePem, chainPem, notAfter } = certificate;
  const chain = pemText(certificatePem + chainPem);
  await place?.write(chain);
  if (json) return printRestRecord(CertificateSchema, certificate);
  const where = output === undefined ? "" : `; wrote ${output}`;
  note(`issued ${nameOf(certificate)}: ${id}; valid until ${dateText(notAfter)}${where}`);
  if (output === undefined) print(chain);
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
