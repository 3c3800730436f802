import { type Config, readTlsFiles } from "../config.ts";
import { offeredCipherSuites } from "./offered-cipher-suites.ts";

/** How clients reach the API, as far as this process knows. */
export type Connections =
  | {
      readonly kind: "tls";
      /** As in "1.2". */
      readonly minVersion: string;
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
  if (tls === undefined) {
    return { connections: { kind: config.TRUSTED_PROXIES.rules.length > 0 ? "proxied" : "clear" } };
  }
  let suites: Promise<ReadonlySet<string>> | undefined;
  const cipherSuites = () => (suites ??= offeredCipherSuites(tls));
  // As the listener sets it (wire/listener.ts).
  return { connections: { kind: "tls", minVersion: "1.2", cipherSuites } };
}
