import { duplexPair } from "node:stream";
import {
  type CipherNameAndProtocol,
  connect,
  createSecureContext,
  getCiphers,
  type SecureContext,
  TLSSocket as ServerSocket,
  type TLSSocket,
} from "node:tls";
import { oldestTlsVersion } from "../wire/listener.ts";

/**
 * The cipher suites that a listener of Node with this certificate agrees to, each by the names of OpenSSL and of IANA in
 * capitals. Found by a handshake for each in memory, some hundred milliseconds in all: what is agreed to follows from the
 * default list, the kind of key and OpenSSL's security level, and no function tells it.
 */
export async function offeredCipherSuites(tls: { cert: Buffer; key: Buffer }): Promise<ReadonlySet<string>> {
  const listener = createSecureContext({ ...tls, minVersion: oldestTlsVersion });
  const names = new Set<string>();
  for (const suite of getCiphers()) {
    const agreed = await shakeHands(listener, suite.toUpperCase());
    if (agreed !== undefined) names.add(agreed.name).add(agreed.standardName);
  }
  return names;
}

/** What a client that offers this suite alone and the listener agree to; undefined when they do not. */
function shakeHands(secureContext: SecureContext, suite: string): Promise<CipherNameAndProtocol | undefined> {
  // Which suites are weak is for the listener to decide, and not for the client.
  const offer = suite.startsWith("TLS_")
    ? ({ ciphers: suite, minVersion: "TLSv1.3" } as const)
    : ({ ciphers: `${suite}:@SECLEVEL=0`, maxVersion: "TLSv1.2" } as const);
  const [near, far] = duplexPair();
  const listening = new ServerSocket(far, { isServer: true, secureContext });
  return new Promise<CipherNameAndProtocol | undefined>((resolve) => {
    const client: TLSSocket = connect({ socket: near, rejectUnauthorized: false, ...offer }, () =>
      resolve(client.getCipher()),
    );
    for (const side of [client, listening]) side.once("error", () => resolve(undefined));
  }).finally(() => {
    for (const stream of [near, far]) stream.destroy();
  });
}
