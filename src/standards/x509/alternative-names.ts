import { DerReader, MalformedDer, primitiveContextTag, sequence, tags, tlv } from "../der.ts";
import { addressOctets, addressText, canonicalAddress } from "./addresses.ts";
import type { NameFault } from "./distinguished-name.ts";
import { canonicalHostOrWildcard, canonicalMailbox } from "./host-names.ts";
import { canonicalUri } from "./uri-names.ts";

/** What a certificate is for (RFC 5280 section 4.2.1.6), in the forms that people write. */
export interface AlternativeNames {
  /** In A-labels, lower-case; the first label may be a star. */
  readonly dns: readonly string[];
  /** In the shortest form of each version. */
  readonly ip: readonly string[];
  readonly email: readonly string[];
  readonly uri: readonly string[];
}

/** The tags of GeneralName that its kinds have. */
export const generalNameTags: Readonly<Record<keyof AlternativeNames, number>> = {
  email: primitiveContextTag(1),
  dns: primitiveContextTag(2),
  uri: primitiveContextTag(6),
  ip: primitiveContextTag(7),
};

export const nameKinds = ["dns", "ip", "email", "uri"] as const satisfies readonly (keyof AlternativeNames)[];

interface Form {
  /** Undefined for what is no name of the kind. */
  readonly canonical: (text: string) => string | undefined;
  readonly message: string;
}

const forms: Readonly<Record<keyof AlternativeNames, Form>> = {
  dns: {
    canonical: canonicalHostOrWildcard,
    message: "must be a host name without a dot at the end; a star may only be the first label, before two or more",
  },
  ip: { canonical: canonicalAddress, message: "must be an IPv4 or IPv6 address" },
  email: { canonical: canonicalMailbox, message: "must be a mail address in ASCII, as in user@example.com" },
  uri: { canonical: canonicalUri, message: "must be an absolute URI in ASCII, as in https://example.com/path" },
};

/** Names in their canonical forms, each once, and what is wrong with those that have none. */
export function canonicalNames(names: AlternativeNames): { names: AlternativeNames; faults: NameFault[] } {
  return canonicalLists(names, forms);
}

/** The same for other lists of these kinds; `path` is what stands before theirs. */
export function canonicalLists(
  lists: AlternativeNames,
  forms: Readonly<Record<keyof AlternativeNames, Form>>,
  path = "",
): { names: AlternativeNames; faults: NameFault[] } {
  const faults: NameFault[] = [];
  const listOf = (kind: keyof AlternativeNames) => {
    const { canonical, message } = forms[kind];
    const list = lists[kind].flatMap((text, index) => {
      const name = canonical(text);
      if (name === undefined) faults.push({ path: `${path}${kind}[${index}]`, message });
      return name ?? [];
    });
    return [...new Set(list)];
  };
  return { names: { dns: listOf("dns"), ip: listOf("ip"), email: listOf("email"), uri: listOf("uri") }, faults };
}

/** Whether a common name is a host name or an address, which a server's certificate then holds as an alternative name. */
export function asAlternativeName(commonName: string): Partial<AlternativeNames> | undefined {
  const address = canonicalAddress(commonName);
  if (address !== undefined) return { ip: [address] };
  const host = canonicalHostOrWildcard(commonName);
  // One word may be the name of anything.
  return host?.includes(".") ? { dns: [host] } : undefined;
}

/** GeneralNames in DER. */
export function encodeAlternativeNames(names: AlternativeNames): Uint8Array {
  return sequence(
    ...nameKinds.flatMap((kind) => names[kind].map((name) => tlv(generalNameTags[kind], contentsOf(kind, name)))),
  );
}

function contentsOf(kind: keyof AlternativeNames, name: string): Buffer {
  const contents = kind === "ip" ? addressOctets(name) : Buffer.from(name, "latin1");
  if (contents === undefined) throw new RangeError("an alternative name is not in its canonical form");
  return contents;
}

/**
 * Reads GeneralNames; kinds that are not listed above are passed over, and said in `others`. Texts are as they stand there,
 * not in canonical form. Throws MalformedDer.
 */
export function readAlternativeNames(der: Uint8Array): { names: AlternativeNames; others: number } {
  const names = { dns: [] as string[], ip: [] as string[], email: [] as string[], uri: [] as string[] };
  let others = 0;
  const outer = new DerReader(der);
  const list = outer.inside(tags.sequence);
  outer.end();
  while (!list.isAtEnd) {
    const kind = nameKinds.find((each) => list.isNext(generalNameTags[each]));
    if (kind === undefined) {
      list.value();
      others += 1;
    } else {
      names[kind].push(textOf(kind, list.contents(generalNameTags[kind])));
    }
  }
  return { names, others };
}

function textOf(kind: keyof AlternativeNames, contents: Buffer): string {
  const text = kind === "ip" ? addressText(contents) : contents.toString("latin1");
  if (text === undefined) throw new MalformedDer("an address has neither 4 nor 16 octets");
  // IA5String. Taken for Latin-1, the octets of another character set might make another name.
  if (/[^\0-\x7f]/.test(text)) throw new MalformedDer("a name is not in ASCII");
  return text;
}
