import { domainToASCII, domainToUnicode } from "node:url";

/** One label of a host name (RFC 1123 section 2.1, RFC 5280 section 4.2.1.6): letters, digits, hyphens within. */
const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** What would be taken for an address, or a part of one: the last label of no domain is a number. */
const number = /^([0-9]+|0x[0-9a-f]*)$/;

/**
 * A host name in A-labels (RFC 5890), lower-case, without a dot at the end; undefined for what is none, as are addresses.
 * Names in the letters of other languages are turned into A-labels.
 */
export function canonicalHost(text: string): string | undefined {
  // No name gets shorter by the conversion, which takes its time for long ones.
  if (text.length > 253) return undefined;
  // Beyond ASCII only what stands in labels may reach the conversion, which would undo escapes and end at a slash.
  if (!/^[A-Za-z0-9.\u{80}-\u{10ffff}-]+$/u.test(text)) return undefined;
  const host = /^[\0-\x7f]*$/.test(text) ? text.toLowerCase() : domainToASCII(text);
  const labels = host.split(".");
  if (host.length > 253 || !labels.every((each) => label.test(each)) || number.test(labels.at(-1) as string)) {
    return undefined;
  }
  return labels.every((each) => !each.startsWith("xn--") || isConverted(each)) ? host : undefined;
}

/** Labels that begin like A-labels and stand for no other letters are reserved (RFC 5890 section 2.3.1). */
function isConverted(label: string): boolean {
  const letters = domainToUnicode(label);
  return letters !== label && domainToASCII(letters) === label;
}

/** A host name as above, or a star for all names right below one of two labels or more. */
export function canonicalHostOrWildcard(text: string): string | undefined {
  if (!text.startsWith("*.")) return canonicalHost(text);
  const host = canonicalHost(text.slice(2));
  // With the star, too, it has to fit into a name.
  return host?.includes(".") && host.length <= 251 ? `*.${host}` : undefined;
}

/** A Dot-string (RFC 5321 section 4.1.2) and a host. A star is legal there, but whoever writes one means something else. */
const mailbox = /^([A-Za-z0-9!#$%&'+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'+/=?^_`{|}~-]+)*)@([^@]+)$/;

/** A mail address in ASCII. Only its host is the same in capitals: what stands before it is the recipient's own affair. */
export function canonicalMailbox(text: string): string | undefined {
  const [, local = "", domain = ""] = mailbox.exec(text) ?? [];
  const host = canonicalHost(domain);
  const address = `${local}@${host}`;
  // RFC 5321 section 4.5.3.1; a path has two brackets more.
  return host === undefined || local.length > 64 || address.length > 254 ? undefined : address;
}
