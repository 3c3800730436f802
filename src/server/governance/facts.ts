import { type Config, readTlsFiles } from "../config.ts";
import { oldestTlsVersion } from "../wire/listener.ts";
import { offeredCipherSuites } from "./offered-cipher-suites.ts";

/** How clients reach the API, as far as this process knows. */
export type Connections =
  | {
      readonly kind: "tls";
      /** As in "1.2". */
      readonly minVersion: string;
      /** Whether there may be a proxy before the listener, which speaks TLS of its own to clients. */
      readonly isProxied: boolean;
      /** By the names of OpenSSL and of IANA, in capitals. */
      cipherSuites(): Promise<ReadonlySet<string>>;
    }
  /** A proxy ends TLS, or does not; nobody here knows which versions it speaks. */
  | { readonly kind: "proxied" }
  | { readonly kind: "clear" };

/** What rules are checked against that no table says: the settings of this process. */
export interface Facts {
  readonly connections: Connections;
}

/** Throws a ConfigError when the TLS files cannot be read. */
export function factsOf(config: Config): Facts {
  const tls = readTlsFiles(config);
  const isProxied = config.TRUSTED_PROXIES.rules.length > 0;
  if (tls === undefined) return { connections: { kind: isProxied ? "proxied" : "clear" } };
  let suites: Promise<ReadonlySet<string>> | undefined;
  const cipherSuites = () => (suites ??= offeredCipherSuites(tls));
  const minVersion = oldestTlsVersion.replace("TLSv", "");
  return { connections: { kind: "tls", minVersion, isProxied, cipherSuites } };
}
