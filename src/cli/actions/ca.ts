import {
  type CertificateAuthority,
  CertificateAuthoritySchema,
  CertificateAuthorityService,
} from "../../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import { allPages } from "../../client/pages.ts";
import { askConsent } from "../ask.ts";
import { dateText, keyText, type NameOptions, nameText, pemText, subjectOf } from "../certificate-text.ts";
import type { Json } from "../commands/options.ts";
import { usage } from "../failure.ts";
import { findAuthorityId } from "../find-certificate.ts";
import { note, print, printRecord, printRecords, printRestRecord, say, timeText } from "../output.ts";
import { writeOwnerFile } from "../owner-file.ts";
import { openSession } from "../session.ts";

export interface CreateAuthorityOptions extends Json, NameOptions {
  readonly parent?: string;
  readonly algorithm?: string;
  readonly size?: number;
  readonly days?: number;
  readonly pathLength?: number;
  readonly permitDns?: string[];
  readonly permitIp?: string[];
  readonly excludeDns?: string[];
  readonly excludeIp?: string[];
}
export interface ListAuthoritiesOptions extends Json {
  readonly status?: string;
  readonly type?: string;
}
export interface UpdateAuthorityOptions extends Json {
  readonly name?: string;
  readonly disable?: boolean;
  readonly enable?: boolean;
}
export interface RevokeAuthorityOptions extends Json {
  readonly reason?: string;
  readonly yes?: boolean;
}
export interface OutputOptions {
  readonly output?: string;
}
export interface CrlOptions extends OutputOptions {
  readonly format?: string;
}

/** Without a parent it is a root; without a common name it is called as its record is. */
export async function create(name: string, options: CreateAuthorityOptions): Promise<void> {
  const api = openSession();
  const { parent, algorithm: keyAlgorithm, size: keySize, days: validityDays, pathLength: maxPathLength } = options;
  const authority = await api(CertificateAuthorityService).createCertificateAuthority({
    name,
    type: parent === undefined ? "root" : "intermediate",
    subject: subjectOf({ ...options, cn: options.cn ?? name }),
    keyAlgorithm,
    keySize,
    validityDays,
    maxPathLength,
    ...constraintsOf(options),
    ...(parent !== undefined && { parentId: await findAuthorityId(api, parent) }),
  });
  if (options.json) return printRestRecord(CertificateAuthoritySchema, authority);
  say(`created ${authority.type} ${authority.name}: ${authority.id}; valid until ${dateText(authority.notAfter)}`);
}

function constraintsOf({ permitDns, permitIp, excludeDns, excludeIp }: CreateAuthorityOptions) {
  if ([permitDns, permitIp, excludeDns, excludeIp].every((list) => list === undefined)) return {};
  const ranges = (dns: string[] = [], ip: string[] = []) => ({ dns, ip });
  return { nameConstraints: { permitted: ranges(permitDns, permitIp), excluded: ranges(excludeDns, excludeIp) } };
}

export async function list({ status, type, ...options }: ListAuthoritiesOptions): Promise<void> {
  const service = openSession()(CertificateAuthorityService);
  printRecords(
    CertificateAuthoritySchema,
    await allPages((page) => service.listCertificateAuthorities({ status, type, ...page })),
    [
      ["NAME", ({ name }) => name],
      ["TYPE", ({ type }) => type],
      ["STATUS", ({ status }) => status],
      ["KEY", keyText],
      ["EXPIRES", ({ notAfter }) => timeText(notAfter)],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function get(reference: string, options: Json): Promise<void> {
  const api = openSession();
  const id = await findAuthorityId(api, reference);
  show(await api(CertificateAuthorityService).getCertificateAuthority({ id }), options);
}

export async function update(reference: string, options: UpdateAuthorityOptions): Promise<void> {
  const { name, disable, enable } = options;
  const status = disable ? "disabled" : enable ? "active" : undefined;
  if (name === undefined && status === undefined) throw usage("nothing to change: give --name, --disable or --enable");
  const api = openSession();
  const id = await findAuthorityId(api, reference);
  show(await api(CertificateAuthorityService).updateCertificateAuthority({ id, name, status }), options);
}

export async function revoke(reference: string, { reason, yes, ...options }: RevokeAuthorityOptions): Promise<void> {
  const api = openSession();
  const id = await findAuthorityId(api, reference);
  const question = `Revoke ${reference} and all that was issued below it, for good?`;
  if (!yes && !(await askConsent(question, "agree with --yes"))) return note("nothing was revoked");
  show(await api(CertificateAuthorityService).revokeCertificateAuthority({ id, reason }), options);
}

/** Gives the certificate of an authority and those above it, in PEM. */
export async function exportChain(reference: string, { output }: OutputOptions): Promise<void> {
  const api = openSession();
  const id = await findAuthorityId(api, reference);
  const { certificatePem, chainPem } = await api(CertificateAuthorityService).getCertificateAuthority({ id });
  await give(pemText(certificatePem + chainPem), output);
}

export async function crl(reference: string, { format, output }: CrlOptions): Promise<void> {
  if (format !== "pem" && output === undefined && process.stdout.isTTY) {
    throw usage("DER is not for a terminal; name a file with --output, or ask for --format pem");
  }
  const api = openSession();
  const id = await findAuthorityId(api, reference);
  const pieces: Uint8Array[] = [];
  for await (const { data } of api(CertificateAuthorityService).downloadCrl({ id, format })) pieces.push(data);
  const bytes = Buffer.concat(pieces);
  await give(format === "pem" ? pemText(bytes.toString("latin1")) : bytes, output);
}

async function give(content: string | Uint8Array, output: string | undefined): Promise<void> {
  if (output === undefined) return print(content);
  await writeOwnerFile(output, content);
  note(`wrote ${output}`);
}

function show(authority: CertificateAuthority, options: Json): void {
  printRecord(
    CertificateAuthoritySchema,
    authority,
    [
      ["name", ({ name }) => name],
      ["id", ({ id }) => id],
      ["type", ({ type }) => type],
      ["parent", ({ parentId }) => parentId ?? "-"],
      ["status", ({ status }) => status],
      ["revoked", ({ revokedAt, revocationReason }) => `${timeText(revokedAt)} ${revocationReason ?? ""}`.trimEnd()],
      ["subject", ({ subject }) => nameText(subject)],
      ["key", keyText],
      ["serial number", ({ serialNumber }) => serialNumber],
      ["fingerprint", ({ fingerprintSha256 }) => fingerprintSha256],
      ["not before", ({ notBefore }) => timeText(notBefore)],
      ["not after", ({ notAfter }) => timeText(notAfter)],
      ["path length", ({ maxPathLength }) => String(maxPathLength ?? "any")],
      ["OCSP", ({ ocspUrl }) => ocspUrl],
      ["CRL", ({ crlUrl }) => crlUrl],
    ],
    options,
  );
}
