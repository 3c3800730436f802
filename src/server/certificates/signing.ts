import type { KeyObject } from "node:crypto";
import type * as pb from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import type { Profile } from "../../standards/x509/certificates.ts";
import { type Csr, InvalidCsr, readCsr } from "../../standards/x509/csr.ts";
import { type KeyAlgorithm, type KeyKind, type KeyPair, keySizes } from "../../standards/x509/key-pairs.ts";
import { authorizeInProject } from "../auth/find-project.ts";
import type { Core } from "../context.ts";
import { type FieldFault, invalid, invalidField } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import type { Preparation } from "../wire/preparing.ts";
import { requestedNames } from "./certificate-names.ts";
import { findCertificate } from "./find-certificate.ts";
import { findIssuer, type SignedCertificate, signCertificate } from "./issue-certificate.ts";
import type { MakesKeys } from "./key-making.ts";
import { dayMs, endOf, lifetimeOf } from "./lifetimes.ts";
import { requireRenewable, signSuccessor } from "./renew-certificate.ts";

/** What a new certificate comes with. */
export interface Signed {
  readonly signed: SignedCertificate;
  /** Of a key that was made for it. */
  readonly privateKey: KeyObject | undefined;
}

const usualMs = 90 * dayMs;
const usualSizes: Readonly<Record<KeyAlgorithm, number>> = { RSA: 2048, ECDSA: 256, Ed25519: 256 };

/**
 * What the methods wait for that issue certificates: keys and signatures take up to seconds, for which no transaction stays
 * open. Whatever speaks against the certificate is said before a key is made.
 */
export const signing = (
  core: Pick<Core, "seal" | "statusUrl">,
  keys: MakesKeys,
): Readonly<Record<string, Preparation>> => ({
  issueCertificate: (request: pb.IssueCertificateRequest, call, signal) =>
    signNew(core, call, request, (kind) => keys(kind, call.caller.organizationId, signal)),
  renewCertificate: (request: pb.RenewCertificateRequest, call) => signRenewal(core, call, request),
});

async function signNew(
  core: Pick<Core, "seal" | "statusUrl">,
  call: Call,
  request: pb.IssueCertificateRequest,
  makeKey: (kind: KeyKind) => Promise<KeyPair>,
): Promise<Signed> {
  const { projectId = null, caId, autoRenew } = request;
  await authorizeInProject(call, projectId);
  const profile = (request.profile ?? "server") as Profile;
  const given = keyOf(request);
  const names = requestedNames(request, "publicKey" in given ? given : undefined, profile);
  const authority = await findIssuer(core, call, call.caller.organizationId, caId);
  names.requireAllowed(authority.nameConstraints);
  const notAfter = endOf(lifetimeOf(request.validityDays, usualMs), call.now, authority.notAfter);
  const { kind, publicKey, privateKey } =
    "publicKey" in given ? { ...given, privateKey: undefined } : { kind: given, ...(await makeKey(given)) };
  const { subject, alternativeNames } = names;
  const draft = {
    projectId,
    subject,
    alternativeNames,
    kind,
    publicKey,
    profile,
    notAfter,
    autoRenew,
    renewalOf: null,
  };
  return { signed: await signCertificate(core, authority, draft, call.now), privateKey };
}

async function signRenewal(
  core: Pick<Core, "seal" | "statusUrl">,
  call: Call,
  { id, csrPem, validityDays }: pb.RenewCertificateRequest,
): Promise<SignedCertificate> {
  const certificate = await findCertificate(call, id);
  const csr = csrPem === undefined ? undefined : csrOf(csrPem);
  requireRenewable(certificate);
  const authority = await findIssuer(core, call, certificate.organizationId, certificate.caId);
  return signSuccessor(core, authority, certificate, { csr, validityDays }, call.now);
}

/** The signing request that holds the key, or the kind of the key that is to be made. */
function keyOf({ csrPem, keyAlgorithm, keySize }: pb.IssueCertificateRequest): Csr | KeyKind {
  if (csrPem !== undefined) {
    const faults: FieldFault[] = [];
    const message = "must not be given together with csr_pem, which brings its key";
    if (keyAlgorithm !== undefined) faults.push({ field: "key_algorithm", message });
    if (keySize !== undefined) faults.push({ field: "key_size", message });
    if (faults.length > 0) throw invalid(faults);
    return csrOf(csrPem);
  }
  const algorithm = (keyAlgorithm ?? "ECDSA") as KeyAlgorithm;
  const sizes = keySizes[algorithm];
  const size = keySize ?? usualSizes[algorithm];
  if (!sizes.includes(size)) throw invalidField("key_size", `must be ${sizes.join(" or ")} for ${algorithm}`);
  return { algorithm, size };
}

function csrOf(pem: string): Csr {
  try {
    return readCsr(pem);
  } catch (error) {
    throw error instanceof InvalidCsr ? invalidField("csr_pem", error.message) : error;
  }
}
