import { randomUUIDv7 } from "node:crypto";
import type * as pb from "../../../gen/ts/holdfast/certificates/v1/certificate_authority_service_pb.ts";
import { type AuthorityDraft, issueIntermediate, issueRoot } from "../../standards/x509/certificates.ts";
import { type DistinguishedName, nameFaults } from "../../standards/x509/distinguished-name.ts";
import { type KeyAlgorithm, type KeyKind, type KeyPair, keySizes } from "../../standards/x509/key-pairs.ts";
import { canonicalConstraints, type NameConstraints } from "../../standards/x509/name-constraints.ts";
import { toPem } from "../../standards/x509/pem.ts";
import { newSerialNumber } from "../../standards/x509/serial-number.ts";
import type { Core } from "../context.ts";
import { type FieldFault, invalid, invalidField, referenceNotFound, wrongState } from "../errors.ts";
import type { Call } from "../wire/call.ts";
import type { Preparation } from "../wire/preparing.ts";
import { type OpenAuthority, openAuthority, type SealedKey, sealKey } from "./authority-key.ts";
import { constraintsOf, faultsBelow, subjectOf } from "./given-names.ts";
import type { MakesKeys } from "./key-making.ts";
import { beginOf, dayMs, endOf, lifetimeOf } from "./lifetimes.ts";
import { pointersOf } from "./pointers.ts";

/** An authority that has a key and a certificate, and that nothing is kept of yet. */
export interface NewAuthority {
  readonly open: OpenAuthority;
  /** Undefined for a root. */
  readonly parentId: string | undefined;
  readonly kind: KeyKind;
  readonly draft: AuthorityDraft;
  readonly sealed: SealedKey;
}

const usualMs = { root: 3650 * dayMs, intermediate: 1825 * dayMs };

/** Nothing bounds a root but the calendar of certificates (RFC 5280 section 4.1.2.5). */
const unbounded = { notBefore: new Date(0), notAfter: new Date("9999-12-31T23:59:59Z") };

/** What authorities have unless another size is given: they last for years. */
const usualSizes: Readonly<Record<KeyAlgorithm, number>> = { RSA: 3072, ECDSA: 256, Ed25519: 256 };

/** What the method waits for that creates an authority: an RSA key takes seconds, for which no transaction stays open. */
export const making = (
  core: Pick<Core, "seal" | "statusUrl">,
  keys: MakesKeys,
): Readonly<Record<string, Preparation>> => ({
  createCertificateAuthority: (request: pb.CreateCertificateAuthorityRequest, call, signal) =>
    makeAuthority(core, call, request, (kind) => keys(kind, call.caller.organizationId, signal)),
});

async function makeAuthority(
  { seal, statusUrl }: Pick<Core, "seal" | "statusUrl">,
  call: Call,
  request: pb.CreateCertificateAuthorityRequest,
  makeKey: (kind: KeyKind) => Promise<KeyPair>,
): Promise<NewAuthority> {
  const { name, parentId } = request;
  call.about({ name });
  const { kind, subject, nameConstraints } = readTerms(request);
  const parent = parentId === undefined ? undefined : await openParent(call, seal, parentId);
  const bounds = boundsOf(call.now, request, parent);
  const { publicKey, privateKey } = await makeKey(kind);
  const draft = { serialNumber: newSerialNumber(), subject, publicKey, nameConstraints, ...bounds };
  const certificate =
    parent === undefined
      ? await issueRoot(draft, privateKey)
      : await issueIntermediate(parent.issuer, draft, pointersOf(statusUrl, parent.id));
  const id = randomUUIDv7();
  const { organizationId } = call.caller;
  const open: OpenAuthority = {
    id,
    organizationId,
    name,
    status: "active",
    issuer: { certificate, privateKey },
    chainPem: parent === undefined ? "" : toPem("CERTIFICATE", parent.issuer.certificate) + parent.chainPem,
    nameConstraints: [nameConstraints ?? [], parent?.nameConstraints ?? []].flat(),
    ...bounds,
  };
  return { open, parentId, kind, draft, sealed: await sealKey(call, seal, organizationId, id, privateKey) };
}

/** What the request says without regard to other authorities. */
function readTerms(request: pb.CreateCertificateAuthorityRequest): {
  kind: KeyKind;
  subject: DistinguishedName;
  nameConstraints: NameConstraints | undefined;
} {
  const faults: FieldFault[] = [];
  const algorithm = (request.keyAlgorithm ?? "ECDSA") as KeyAlgorithm;
  const size = request.keySize ?? usualSizes[algorithm];
  const sizes = keySizes[algorithm];
  if (!sizes.includes(size))
    faults.push({ field: "key_size", message: `must be ${sizes.join(" or ")} for ${algorithm}` });
  // That there is one is a rule of the proto.
  const subject = subjectOf(request.subject as NonNullable<typeof request.subject>);
  if (subject.commonName === "") faults.push({ field: "subject.common_name", message: "is required" });
  faults.push(...faultsBelow("subject", nameFaults(subject)));
  const given = request.nameConstraints && canonicalConstraints(constraintsOf(request.nameConstraints));
  faults.push(...faultsBelow("name_constraints", given?.faults ?? []));
  if (faults.length > 0) throw invalid(faults);
  return { kind: { algorithm, size }, subject, nameConstraints: restrictsAny(given?.constraints) };
}

/** Constraints that name nothing are none: a certificate must not hold them (RFC 5280 section 4.2.1.10). */
function restrictsAny(constraints: NameConstraints | undefined): NameConstraints | undefined {
  const ranges = constraints && [constraints.permitted, constraints.excluded].flatMap((each) => Object.values(each));
  return ranges?.flat().length ? constraints : undefined;
}

async function openParent(call: Call, seal: Core["seal"], id: string): Promise<OpenAuthority> {
  const parent = await openAuthority(call, seal, call.caller.organizationId, id);
  if (parent === undefined) throw referenceNotFound("parent_id", "certificate authority");
  requireActive(parent.status);
  return parent;
}

/** Refuses a parent that issues nothing. */
export function requireActive(statusOfParent: OpenAuthority["status"]): void {
  if (statusOfParent !== "active") throw wrongState(`the parent certificate authority is ${statusOfParent}`);
}

/** From when to when the certificate is valid, and how many may follow below it, as far as a parent leaves room. */
function boundsOf(now: Date, request: pb.CreateCertificateAuthorityRequest, parent: OpenAuthority | undefined) {
  const { notBefore, notAfter } = parent ?? unbounded;
  const lifetime = lifetimeOf(request.validityDays, parent === undefined ? usualMs.root : usualMs.intermediate);
  const maxPathLength = parent === undefined ? request.maxPathLength : pathLengthBelow(parent, request.maxPathLength);
  return { maxPathLength, notBefore: beginOf(now, notBefore), notAfter: endOf(lifetime, now, notAfter) };
}

function pathLengthBelow({ maxPathLength: most }: OpenAuthority, given = 0): number {
  if (most === 0) throw wrongState("the parent certificate authority allows no authority below it");
  if (most !== undefined && given >= most) {
    throw invalidField("max_path_length", `must be less than ${most}, which is that of the parent`);
  }
  return given;
}
