import type { Connections } from "../facts.ts";
import type { EncryptionPolicyJson, ViolationJson } from "../report-json.ts";
import { failed, notEvaluated, nothingRequired, type Outcome, passed, type Rules } from "./rule.ts";

const violation = (name: string, actual: string): ViolationJson => ({
  resource_type: "service",
  resource_id: "",
  name,
  actual,
});

const behindProxy = "behind a proxy: how clients are connected to it is not known here";

/** What the listener keeps, a proxy before it may not. */
const kept = ({ isProxied }: { readonly isProxied: boolean }, checked: number, message: string): Outcome =>
  isProxied ? notEvaluated(`${message}; ${behindProxy}`) : passed(checked, message);

function withoutTls({ kind }: Exclude<Connections, { kind: "tls" }>): Outcome {
  if (kind === "proxied") return notEvaluated(behindProxy);
  return failed(1, "connections are not encrypted", [violation("listener", "no TLS")]);
}

/** What is required of connections to the API. */
export const encryptionPolicy: Rules<EncryptionPolicyJson> = {
  min_tls_version: (least, { facts: { connections } }) => {
    if (connections.kind !== "tls") return withoutTls(connections);
    const actual = `TLS ${connections.minVersion}`;
    const message = `the listener speaks ${actual} and newer`;
    // "1.0" to "1.3" compare as texts.
    if (connections.minVersion >= least) return kept(connections, 1, message);
    return failed(1, message, [violation("listener", actual)]);
  },

  required_cipher_suites: async (suites, { facts: { connections } }) => {
    if (suites.length === 0) return nothingRequired();
    if (connections.kind !== "tls") return withoutTls(connections);
    const offered = await connections.cipherSuites();
    const required = [...new Set(suites)].sort();
    const missing = required.filter((name) => !offered.has(name.toUpperCase()));
    const message = `${missing.length} of ${required.length} cipher suites are not offered`;
    if (missing.length === 0) return kept(connections, required.length, message);
    return failed(
      required.length,
      message,
      missing.map((name) => violation(name, "not offered")),
    );
  },
};
