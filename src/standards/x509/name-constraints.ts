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
  const alike = likenessOf(subject.commonName);
  return nameKinds.flatMap((kind) => {
    const own = names[kind].map((name, index) => ({ name, path: `${kind}[${index}]` }));
    const inSubject = (alike[kind] ?? []).map((name) => ({ name, path: "common_name" }));
    const asked = [...own, ...inSubject];
    if (asked.length === 0) return [];
    // Ranges are many, and read once for all names.
    const isAllowed = constraints.map((each) => allowance(each, kind));
    return asked.flatMap(({ name, path }) => {
      const parts = partsOf(kind, name);
      return isAllowed.every((allows) => allows(parts)) ? [] : [{ path, message }];
    });
  });
}

const message = "is not allowed by the name constraints of the authority";

/** The name for which software that still looks at common names takes one, be it as badly formed as such software allows. */
function likenessOf(commonName: string): Partial<AlternativeNames> {
  const text = commonName.trim().replace(/\.$/, "");
  const isLikeHost = /^[\w*-]+(\.[\w*-]+)+$/.test(text);
  return asAlternativeName(text) ?? (isLikeHost ? { dns: [text.toLowerCase()] } : {});
}

/** What of a name is held against ranges of its kind. */
interface NameParts {
  readonly text: string;
  /** Of a mail address or a URI, where it has one. */
  readonly host: string | undefined;
  /** Of an address. */
  readonly octets: Buffer | undefined;
}

const partsOf = (kind: Kind, name: string): NameParts => ({
  text: name,
  host: kind === "uri" ? hostOfUri(name) : name.slice(name.lastIndexOf("@") + 1),
  octets: kind === "ip" ? addressOctets(name) : undefined,
});

type Match = (name: NameParts) => boolean;

/** Whether constraints allow a name of a kind. Of a kind that nothing is permitted of in particular, everything is. */
function allowance({ permitted, excluded }: NameConstraints, kind: Kind): Match {
  const isPermitted = permitted[kind].map(within[kind]);
  const isExcluded = excluded[kind].map(kind === "dns" ? withinOrFor : within[kind]);
  return (name) => {
    // A URI without a host cannot be held against hosts, so that it is refused (RFC 5280 section 4.2.1.10).
    if (name.host === undefined) return isPermitted.length === 0 && isExcluded.length === 0;
    if (isExcluded.some((matches) => matches(name))) return false;
    return isPermitted.length === 0 || isPermitted.some((matches) => matches(name));
  };
}

const within: Readonly<Record<Kind, (range: string) => Match>> = {
  dns: withinDomain,
  ip: withinNetwork,
  email: (range) => (range.includes("@") ? ({ text }) => text === range : withinHosts(range)),
  uri: withinHosts,
};

function withinDomain(range: string): Match {
  const ending = `.${range}`;
  return ({ text }) => text === range || text.endsWith(ending);
}

/** Within a domain, or a star, one of whose names is that domain. */
function withinOrFor(range: string): Match {
  const isWithinDomain = withinDomain(range);
  const star = `*.${range.slice(range.indexOf(".") + 1)}`;
  return (name) => name.text === star || isWithinDomain(name);
}

function withinNetwork(range: string): Match {
  const network = readNetwork(range);
  return ({ octets }) => octets !== undefined && network !== undefined && isWithin(octets, network);
}

function withinHosts(range: string): Match {
  return range.startsWith(".") ? ({ host }) => host?.endsWith(range) === true : ({ host }) => host === range;
}
