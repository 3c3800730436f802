import { getCACertificates } from "node:tls";
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";

/** Where a server, or a replica of one, takes gRPC calls. */
export interface GrpcEndpoint {
  readonly url: string;
  /** As @grpc/grpc-js wants it. */
  readonly target: string;
  readonly credentials: ChannelCredentials;
}

/**
 * The endpoint at a URL, http (cleartext HTTP/2) or https, which has no path: gRPC knows none. `certificateAuthorities`,
 * in PEM, are trusted beside those that Node trusts. Undefined for any other text.
 */
export function grpcEndpoint(text: string, certificateAuthorities?: string): GrpcEndpoint | undefined {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === "") return undefined;
  if (url.pathname !== "/" || `${url.username}${url.password}${url.search}${url.hash}` !== "") return undefined;
  const isTls = url.protocol === "https:";
  return {
    url: url.origin,
    target: `dns:${url.hostname}:${url.port || (isTls ? "443" : "80")}`,
    credentials: isTls ? credentials.createSsl(trusted(certificateAuthorities)) : credentials.createInsecure(),
  };
}

/** A list replaces what @grpc/grpc-js trusts by itself, so it holds that too. */
const trusted = (certificateAuthorities: string | undefined): Buffer | null =>
  certificateAuthorities === undefined
    ? null
    : Buffer.from([...getCACertificates("default"), certificateAuthorities].join("\n"));
