import { canonicalAddress } from "./addresses.ts";
import { canonicalHost } from "./host-names.ts";

/** Scheme, authority if there is one, and the rest, in the characters of RFC 3986 section 2. */
const parts = /^([A-Za-z][A-Za-z0-9+.-]*):(?:\/\/([^/?#]*))?((?:[A-Za-z0-9._~:/?#[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)$/;

/** A host, within brackets an address of version 6, and a port. Nobody is certified by a user of a host. */
const authority = /^(?:\[([^\]]+)\]|([^:[\]@]+))(:\d{1,5})?$/;

/** Schemes that say nothing without a host. */
const hierarchical = new Set(["ftp", "http", "https", "ldap", "ldaps", "spiffe", "ws", "wss"]);

/**
 * An absolute URI in ASCII (RFC 5280 section 4.2.1.6), its scheme and host lower-case; all else as it is. Where there is an
 * authority it has a host or an address.
 */
export function canonicalUri(text: string): string | undefined {
  if (!/^[!-~]{1,2048}$/.test(text)) return undefined;
  const [, scheme = "", location, rest = ""] = parts.exec(text) ?? [];
  const name = scheme.toLowerCase();
  if (name === "") return undefined;
  if (location === undefined) return rest === "" || hierarchical.has(name) ? undefined : `${name}:${rest}`;
  const [, version6 = "", host = "", port = ""] = authority.exec(location) ?? [];
  if (Number(port.slice(1)) > 65_535) return undefined;
  const address = canonicalAddress(version6 || host);
  if (version6 !== "") return address?.includes(":") ? `${name}://[${address}]${port}${rest}` : undefined;
  const canonical = address ?? canonicalHost(host);
  return canonical === undefined ? undefined : `${name}://${canonical}${port}${rest}`;
}

/** The host name of a URI in canonical form; undefined where it has an address or no authority at all. */
export function hostOfUri(uri: string): string | undefined {
  const [, , location = ""] = parts.exec(uri) ?? [];
  const [, , host = ""] = authority.exec(location) ?? [];
  return canonicalHost(host);
}
