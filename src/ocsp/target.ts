/** What others ask about the responder itself. */
export type Probe = "health" | "live" | "ready";

/** What a path of the responder names. */
export type Target =
  | { readonly kind: "probe"; readonly probe: Probe }
  /** `text` is what follows the first slash, as it was sent: of GET a request in base64, of POST nothing. */
  | { readonly kind: "ocsp"; readonly text: string }
  | { readonly kind: "crl" | "ca"; readonly authorityId: string }
  | { readonly kind: "none" };

const prefix = "/ocsp";
const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const document = new RegExp(`^/(?:crl/(?<crl>${uuid})\\.crl|ca/(?<ca>${uuid})\\.crt)$`);

/**
 * What the target of an HTTP request names. /ocsp may stand before each path: some proxies strip it, and some do not.
 * Base64 has slashes of its own, so a path is never taken apart at them (RFC 6960 appendix A.1).
 */
export function targetOf(requestTarget: string): Target {
  const path = withoutPrefix(pathOf(requestTarget));
  if (path === "/health" || path === "/ready" || path === "/live") {
    return { kind: "probe", probe: path.slice(1) as Probe };
  }
  // No DER begins with these letters in base64: the tag of a sequence makes it an M.
  if (path.startsWith("/crl/") || path.startsWith("/ca/")) {
    const { crl, ca } = document.exec(path)?.groups ?? {};
    if (crl !== undefined) return { kind: "crl", authorityId: crl };
    return ca === undefined ? { kind: "none" } : { kind: "ca", authorityId: ca };
  }
  // Clients put a slash between the URL of a certificate and the request, and the URL may end in one too.
  return { kind: "ocsp", text: path.slice(path.startsWith("//") ? 2 : 1) };
}

/** Without the query, and without the scheme and host that are sent to a proxy. */
function pathOf(requestTarget: string): string {
  const [target = ""] = requestTarget.split("?", 1);
  return target.startsWith("/") ? target : target.replace(/^https?:\/\/[^/]*/i, "");
}

function withoutPrefix(path: string): string {
  if (path === prefix || path === "") return "/";
  return path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path;
}

/** A request as GET has it: base64 of either alphabet, with or without padding, with or without percent escapes. */
export function decodeQuery(text: string): Buffer | undefined {
  const base64 = unescaped(text);
  if (base64 === undefined || !/^[A-Za-z0-9+/_-]+={0,2}$/.test(base64)) return undefined;
  return Buffer.from(base64, "base64");
}

function unescaped(text: string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
