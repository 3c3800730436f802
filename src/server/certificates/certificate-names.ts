import type * as pb from "../../../gen/ts/holdfast/certificates/v1/certificate_service_pb.ts";
import type * as pbNames from "../../../gen/ts/holdfast/certificates/v1/names_pb.ts";
import {
  type AlternativeNames,
  asAlternativeName,
  canonicalNames,
  encodeAlternativeNames,
} from "../../standards/x509/alternative-names.ts";
import type { Profile } from "../../standards/x509/certificates.ts";
import type { Csr } from "../../standards/x509/csr.ts";
import { type DistinguishedName, type NameFault, nameFaults } from "../../standards/x509/distinguished-name.ts";
import { canonicalHost } from "../../standards/x509/host-names.ts";
import { forbiddenNames, type NameConstraints } from "../../standards/x509/name-constraints.ts";
import { type FieldFault, invalid } from "../errors.ts";
import { faultsBelow, subjectOf } from "./given-names.ts";

/** What a certificate is to be issued for. */
export interface CertificateNames {
  readonly subject: DistinguishedName;
  /** Canonical. */
  readonly alternativeNames: AlternativeNames;
  /** Throws VALIDATION_ERROR naming what the constraints of the authorities above do not allow. */
  requireAllowed(constraints: readonly NameConstraints[]): void;
}

const noSubject = { commonName: "", organization: "", organizationalUnit: "", country: "", state: "", locality: "" };
const noNames: AlternativeNames = { dns: [], ip: [], email: [], uri: [] };

/** In octets. OpenSSL takes no chain of more than 100 KiB (SSL_CTX_set_max_cert_list). */
const longestNames = 32_768;

/** Turns faults in names into those of the fields that the names came in. */
type Tell = (faults: readonly NameFault[]) => FieldFault[];

const below =
  (field: string): Tell =>
  (faults) =>
    faultsBelow(field, faults);

/** The names in a signing request have no fields of their own. */
const inCsr =
  (part: string): Tell =>
  (faults) =>
    faultsBelow(part, faults).map(({ field, message }) => ({ field: "csr_pem", message: `${field} ${message}` }));

/**
 * The names that a request asks for: its own and, where it gives none, those of its signing request. A server's common
 * name that is a host name or an address becomes an alternative name too, since clients look at nothing else (RFC 9525
 * section 2). Throws VALIDATION_ERROR naming every fault.
 */
export function requestedNames(
  given: Pick<pb.IssueCertificateRequest, "subject" | "subjectAlternativeNames">,
  csr: Csr | undefined,
  profile: Profile,
): CertificateNames {
  const { subject, tellSubject } =
    given.subject === undefined
      ? { subject: subjectOf(csr?.subject ?? noSubject), tellSubject: inCsr("subject") }
      : { subject: subjectOf(given.subject), tellSubject: below("subject") };
  const { asked, tellNames } =
    given.subjectAlternativeNames === undefined
      ? { asked: csr?.alternativeNames ?? noNames, tellNames: inCsr("subject_alternative_names") }
      : { asked: plain(given.subjectAlternativeNames), tellNames: below("subject_alternative_names") };
  const { names: own, faults } = canonicalNames(asked);
  refuse([...tellSubject(nameFaults(subject)), ...tellNames(faults)]);
  const alternativeNames = profile === "client" ? own : withCommonName(own, subject.commonName);
  refuse(lacking(profile, subject, alternativeNames));
  if (encodeAlternativeNames(alternativeNames).length > longestNames) {
    refuse(tellNames([{ path: "", message: `must take at most ${longestNames} octets in all` }]));
  }
  return {
    subject,
    alternativeNames,
    requireAllowed(constraints) {
      const forbidden = forbiddenNames(constraints, subject, own);
      const ofNames = forbidden.filter(({ path }) => path.endsWith("]"));
      const ofSubject = forbidden.filter(({ path }) => !path.endsWith("]"));
      refuse([...tellSubject(ofSubject), ...tellNames(ofNames)]);
    },
  };
}

const plain = ({ dns, ip, email, uri }: pbNames.AlternativeNames): AlternativeNames => ({ dns, ip, email, uri });

function withCommonName(names: AlternativeNames, commonName: string): AlternativeNames {
  const { dns = [], ip = [] } = asAlternativeName(commonName) ?? {};
  return canonicalNames({ ...names, dns: [...names.dns, ...dns], ip: [...names.ip, ...ip] }).names;
}

/** What a certificate of a profile cannot do without. */
function lacking(
  profile: Profile,
  subject: DistinguishedName,
  { dns, ip, email, uri }: AlternativeNames,
): FieldFault[] {
  if (profile !== "client") {
    const isOneWord = canonicalHost(subject.commonName) !== undefined;
    const hint = isOneWord ? "; a common_name without a dot is not taken for one" : "";
    const message = `must hold a host name or an address, which is what a server is known by${hint}`;
    return dns.length + ip.length > 0 ? [] : [{ field: "subject_alternative_names", message }];
  }
  const isNamed = [...Object.values(subject), ...dns, ...ip, ...email, ...uri].some((name) => name !== "");
  return isNamed ? [] : [{ field: "subject", message: "is required for a client without alternative names" }];
}

function refuse(faults: readonly FieldFault[]): void {
  if (faults.length > 0) throw invalid(faults);
}
