/**
 * Encryption types of Kerberos (RFC 3961): IANA gives the numbers, MIT Kerberos the names that are printed and the
 * aliases that are understood. Names in use differ from tool to tool, so types are compared by number.
 */

export interface Enctype {
  /** Signed, 16 bits: Windows has negative ones of its own. */
  readonly number: number;
  /** As MIT prints it. */
  readonly name: string;
  readonly aliases: readonly string[];
  /** The RFC that defines it. */
  readonly rfc: number;
  /** The RFC that says to use it no more: 8429 since it is weak, 6649 since it is broken. */
  readonly deprecatedBy?: 6649 | 8429;
}

/** All types that have a name here (G-6.3), the strongest first. */
export const enctypes: readonly Enctype[] = [
  { number: 20, name: "aes256-cts-hmac-sha384-192", aliases: ["aes256-sha2"], rfc: 8009 },
  { number: 19, name: "aes128-cts-hmac-sha256-128", aliases: ["aes128-sha2"], rfc: 8009 },
  { number: 18, name: "aes256-cts-hmac-sha1-96", aliases: ["aes256-cts", "aes256-sha1"], rfc: 3962 },
  { number: 17, name: "aes128-cts-hmac-sha1-96", aliases: ["aes128-cts", "aes128-sha1"], rfc: 3962 },
  { number: 26, name: "camellia256-cts-cmac", aliases: ["camellia256-cts"], rfc: 6803 },
  { number: 25, name: "camellia128-cts-cmac", aliases: ["camellia128-cts"], rfc: 6803 },
  { number: 23, name: "arcfour-hmac", aliases: ["rc4-hmac", "arcfour-hmac-md5"], rfc: 4757, deprecatedBy: 8429 },
  // IANA calls 16 des3-cbc-sha1-kd, and means 7, which nobody has used, by des3-cbc-sha1.
  { number: 16, name: "des3-cbc-sha1", aliases: ["des3-hmac-sha1", "des3-cbc-sha1-kd"], rfc: 3961, deprecatedBy: 8429 },
  {
    number: 24,
    name: "arcfour-hmac-exp",
    aliases: ["rc4-hmac-exp", "arcfour-hmac-md5-exp"],
    rfc: 4757,
    deprecatedBy: 6649,
  },
  { number: 3, name: "des-cbc-md5", aliases: ["des"], rfc: 3961, deprecatedBy: 6649 },
  { number: 2, name: "des-cbc-md4", aliases: [], rfc: 3961, deprecatedBy: 6649 },
  { number: 1, name: "des-cbc-crc", aliases: [], rfc: 3961, deprecatedBy: 6649 },
];

const byNumber = new Map(enctypes.map((enctype) => [enctype.number, enctype]));
const byName = new Map(enctypes.flatMap(({ number, name, aliases }) => [name, ...aliases].map((of) => [of, number])));

/** The name that MIT prints, or `etype-n` (G-6.3). */
export const enctypeName = (number: number): string => byNumber.get(number)?.name ?? `etype-${number}`;

/**
 * The number of the type that a person or a tool names, in any case: by a name of MIT, an alias, `etype-n`, or as klist
 * prints it, with `DEPRECATED:` in front. Undefined for any other text, and for families such as `aes` in krb5.conf,
 * which are lists of types.
 */
export function enctypeNumber(text: string): number | undefined {
  const name = text
    .trim()
    .toLowerCase()
    .replace(/^deprecated:/, "");
  const [, digits] = /^etype[- ](-?\d{1,5})$/.exec(name) ?? [];
  if (digits === undefined) return byName.get(name);
  const number = Number(digits);
  return number >= -0x8000 && number <= 0x7fff ? number : undefined;
}

/** What krb5.conf names lists of types by (MIT's krb5.conf, "Encryption types"), with `default` as MIT has it. */
const families = new Map([
  ["default", [18, 17, 20, 19, 16, 23, 25, 26]],
  ["aes", [18, 17, 20, 19]],
  ["rc4", [23]],
  ["des3", [16]],
  ["camellia", [26, 25]],
]);

/** The names of the types that a family of krb5.conf stands for, in any case, whether it adds or removes them there. */
export function enctypeFamily(text: string): readonly string[] | undefined {
  const name = text.trim().toLowerCase().replace(/^[-+]/, "");
  return families.get(name)?.map(enctypeName);
}

/** How far a type protects. Of an unknown one nothing can be said, so it is neither strong nor weak. */
export function enctypeStrength(number: number): "strong" | "weak" | "broken" | "unknown" {
  const enctype = byNumber.get(number);
  if (enctype === undefined) return "unknown";
  if (enctype.deprecatedBy === undefined) return "strong";
  return enctype.deprecatedBy === 8429 ? "weak" : "broken";
}
