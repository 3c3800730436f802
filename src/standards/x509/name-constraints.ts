import { contextTag, sequence, tlv } from "../der.ts";
import { addressOctets, isWithin, readNetwork } from "./addresses.ts";
import {
  type AlternativeNames,
  asAlternativeName,
  canonicalLists,
  generalNameTags,
  nameKinds,
} from "./alternative-names.ts";
import type { DistinguishedName, NameFault } from "./distinguished-name.ts";
import { canonicalHost, canonicalMailbox } from "./host-names.ts";
import { hostOfUri } from "./uri-names.ts";

/** Ranges of names (RFC 5280 section 4.2.1.10): domains, networks as in 10.0.0.0/8, mail and URI hosts. */
export interface NameRanges {
  readonly dns: readonly string[];
  readonly ip: readonly string[];
  readonly email: readonly string[];
  readonly uri: readonly string[];
}

export interface NameConstraints {
  readonly permitted: NameRanges;
  readonly excluded: NameRanges;
}

type Kind = keyof NameRanges;

const forms = {
  dns: { canonical: canonicalHost, message: "must be a domain, as in example.com" },
  ip: {
    canonical: (text: string) => readNetwork(text)?.text,
    message: "must be a network, as in 10.0.0.0/8, without bits after its prefix",
  },
  email: {
    canonical: (text: string) => canonicalMailbox(text) ?? canonicalHosts(text),
    message: "must be a mail address, a host, or a domain with a dot before it",
  },
  uri: { canonical: canonicalHosts, message: "must be a host, or a domain with a dot before it" },
};

/** A host, or with a dot before it all hosts below a domain. */
function canonicalHosts(text: string): string | undefined {
  const host = canonicalHost(text.replace(/^\./, ""));
  return host !== undefined && text.startsWith(".") ? `.${host}` : host;
}

/** Constraints in canonical form, and what is wrong with ranges that have none, by paths as in "permitted.ip[0]". */
export function canonicalConstraints(constraints: NameConstraints): {
  constraints: NameConstraints;
  faults: NameFault[];
} {
  const permitted = canonicalLists(constraints.permitted, forms, "permitted.");
  const excluded = canonicalLists(constraints.excluded, forms, "excluded.");
  return {
    constraints: { permitted: permitted.names, excluded: excluded.names },
    faults: [...permitted.faults, ...excluded.faults],
  };
}

/** NameConstraints in DER; undefined where they list nothing, since then a certificate must not have them. */
export function encodeNameConstraints({ permitted, excluded }: NameConstraints): Uint8Array | undefined {
  const subtrees = [permitted, excluded].flatMap((ranges, index) => {
    const list = nameKinds.flatMap((kind) => ranges[kind].map((range) => encodeRange(kind, range)));
    return list.length === 0 ? [] : [tlv(contextTag(index), ...list)];
  });
  return subtrees.length === 0 ? undefined : sequence(...subtrees);
}

/** GeneralSubtree. */
function encodeRange(kind: Kind, range: string): Buffer {
  if (kind !== "ip") return sequence(tlv(generalNameTags[kind], Buffer.from(range, "latin1")));
  const network = readNetwork(range);
  if (network === undefined) throw new RangeError("a network is not in its canonical form");
  return sequence(tlv(generalNameTags.ip, network.address, network.mask));
}

/**
 * Those of a certificate's names, in canonical form, that the constraints of the authorities above it do not allow. A common
 * name that can be taken for a host or an address is held to the same.
 */
export function forbiddenNames(
  constraints: readonly NameConstraints[],
  subject: DistinguishedName,
  names: AlternativeNames,
): NameFault[] {
  const isForbidden = (kind: Kind, name: string) => constraints.some((each) => !allows(each, kind, name));
  const faults = nameKinds.flatMap((kind) =>
    names[kind].flatMap((name, index) => (isForbidden(kind, name) ? [{ path: `${kind}[${index}]`, message }] : [])),
  );
  const alike = likenessOf(subject.commonName);
  const isAlikeForbidden = nameKinds.some((kind) => alike[kind]?.some((name) => isForbidden(kind, name)));
  return isAlikeForbidden ? [...faults, { path: "common_name", message }] : faults;
}

const message = "is not allowed by the name constraints of the authority";

/** The name for which software that still looks at common names takes one, be it as badly formed as such software allows. */
function likenessOf(commonName: string): Partial<AlternativeNames> {
  const text = commonName.trim().replace(/\.$/, "");
  const isLikeHost = /^[\w*-]+(\.[\w*-]+)+$/.test(text);
  return asAlternativeName(text) ?? (isLikeHost ? { dns: [text.toLowerCase()] } : {});
}

/** Of a kind that nothing is permitted of in particular, everything is. */
function allows({ permitted, excluded }: NameConstraints, kind: Kind, name: string): boolean {
  // A URI without a host cannot be held against hosts, so that it is refused (RFC 5280 section 4.2.1.10).
  const isUnclear = kind === "uri" && hostOfUri(name) === undefined;
  if (isUnclear) return permitted.uri.length === 0 && excluded.uri.length === 0;
  if (excluded[kind].some((range) => isInRange[kind](name, range) || couldStandFor(kind, name, range))) return false;
  return permitted[kind].length === 0 || permitted[kind].some((range) => isInRange[kind](name, range));
}

const isInRange: Readonly<Record<Kind, (name: string, range: string) => boolean>> = {
  dns: (name, range) => name === range || name.endsWith(`.${range}`),
  ip: isInNetwork,
  email: (name, range) =>
    range.includes("@") ? name === range : isHostInRange(name.slice(name.lastIndexOf("@") + 1), range),
  uri: (name, range) => isHostInRange(hostOfUri(name) ?? "", range),
};

/** A star stands for what is excluded by one of the names that it is for. */
const couldStandFor = (kind: Kind, name: string, range: string) =>
  kind === "dns" && name.startsWith("*.") && range.slice(range.indexOf(".") + 1) === name.slice(2);

function isInNetwork(address: string, range: string): boolean {
  const octets = addressOctets(address);
  const network = readNetwork(range);
  return octets !== undefined && network !== undefined && isWithin(octets, network);
}

const isHostInRange = (host: string, range: string) => (range.startsWith(".") ? host.endsWith(range) : host === range);
