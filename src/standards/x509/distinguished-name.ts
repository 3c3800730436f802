import { DerReader, oid, sequence, tags, tlv } from "../der.ts";

/** A subject or issuer as far as it is made here: one value for each attribute, "" where there is none. */
export interface DistinguishedName {
  readonly commonName: string;
  readonly organization: string;
  readonly organizationalUnit: string;
  readonly country: string;
  readonly state: string;
  readonly locality: string;
}

/** What is wrong with a name, by its path below it, as in "country" or "dns[3]". */
export interface NameFault {
  readonly path: string;
  readonly message: string;
}

interface Attribute {
  readonly key: keyof DistinguishedName;
  readonly path: string;
  /** AttributeType in DER. */
  readonly type: Buffer;
  /** The most characters of a value. */
  readonly upperBound: number;
}

/** In the order in which they are written (X.520; upper bounds of RFC 5280 appendix A.1). */
const attributes: readonly Attribute[] = [
  { key: "country", path: "country", type: oid("2.5.4.6"), upperBound: 2 },
  { key: "state", path: "state", type: oid("2.5.4.8"), upperBound: 128 },
  { key: "locality", path: "locality", type: oid("2.5.4.7"), upperBound: 128 },
  { key: "organization", path: "organization", type: oid("2.5.4.10"), upperBound: 64 },
  { key: "organizationalUnit", path: "organizational_unit", type: oid("2.5.4.11"), upperBound: 64 },
  { key: "commonName", path: "common_name", type: oid("2.5.4.3"), upperBound: 64 },
];

const stringTags = {
  utf8: 0x0c,
  numeric: 0x12,
  printable: 0x13,
  teletex: 0x14,
  ia5: 0x16,
  visible: 0x1a,
  universal: 0x1c,
  bmp: 0x1e,
} as const;

/** Name in DER (RFC 5280 section 4.1.2.4), each attribute a set of its own: country, state, locality, O, OU, CN. */
export function encodeName(name: DistinguishedName): Uint8Array {
  const given = attributes.filter(({ key }) => name[key] !== "");
  return sequence(...given.map(({ key, type }) => tlv(tags.set, sequence(type, encodeValue(key, name[key])))));
}

/** A country is a PrintableString in capitals (ISO 3166-1), all else a UTF8String. */
function encodeValue(key: keyof DistinguishedName, value: string): Buffer {
  if (key === "country") return tlv(stringTags.printable, Buffer.from(value.toUpperCase(), "latin1"));
  return tlv(stringTags.utf8, Buffer.from(value));
}

/**
 * Reads what encodeName writes, and of other names the first value of each attribute that it knows. Throws MalformedDer for
 * what is no Name; what its values are is for nameFaults to say.
 */
export function readName(der: Uint8Array): DistinguishedName {
  const name = { commonName: "", organization: "", organizationalUnit: "", country: "", state: "", locality: "" };
  const outer = new DerReader(der);
  const sets = outer.inside(tags.sequence);
  outer.end();
  while (!sets.isAtEnd) {
    const set = sets.inside(tags.set);
    while (!set.isAtEnd) {
      const pair = set.inside(tags.sequence);
      const type = pair.value();
      const value = pair.value();
      pair.end();
      const known = attributes.find((attribute) => attribute.type.equals(type));
      if (known !== undefined) name[known.key] ||= textOf(value);
    }
  }
  return name;
}

/** The text of a value of any string type of X.520, "" of what is none. */
function textOf(value: Buffer): string {
  const [tag = 0] = value;
  const contents = new DerReader(value).contents(tag);
  switch (tag) {
    case stringTags.utf8:
      return contents.toString();
    case stringTags.numeric:
    case stringTags.printable:
    case stringTags.ia5:
    case stringTags.visible:
    // T.61 has more than one character set; all software writes Latin-1 in its place.
    case stringTags.teletex:
      return contents.toString("latin1");
    case stringTags.bmp:
      return new TextDecoder("utf-16be").decode(contents);
    case stringTags.universal:
      return utf32Text(contents);
    default:
      return "";
  }
}

function utf32Text(octets: Buffer): string {
  let text = "";
  for (let at = 0; at + 4 <= octets.length; at += 4) {
    const character = octets.readUInt32BE(at);
    text += character <= 0x10_ffff ? String.fromCodePoint(character) : replacement;
  }
  return text;
}

/** What stands where bytes were no text. */
const replacement = "\ufffd";

/**
 * Control characters, line and paragraph separators, halves of pairs, what stands for bytes that were no text, and what is
 * not seen but makes a name look like another one, as directions of writing do. Some scripts need the two joiners.
 */
const unprintable = /[[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\ufffd]--[\u200c\u200d]]/v;

/** Control characters, blanks around, more than X.520 allows (ub-… of RFC 5280 appendix A), a country that is none. */
export function nameFaults(name: DistinguishedName): NameFault[] {
  return attributes.flatMap(({ key, path, upperBound }) => {
    const value = name[key];
    if (value === "") return [];
    if (key === "country") return /^[A-Za-z]{2}$/.test(value) ? [] : [{ path, message: "must have two letters" }];
    const messages: string[] = [];
    if (unprintable.test(value)) messages.push("must not have control or invisible characters");
    if (value !== value.trim()) messages.push("must not begin or end with blanks");
    // In characters, of which some are two units of JavaScript.
    if ([...value].length > upperBound) messages.push(`must have at most ${upperBound} characters`);
    return messages.map((message) => ({ path, message }));
  });
}
