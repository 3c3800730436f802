import { type GrpcEndpoint, grpcEndpoint } from "./grpc-endpoint.ts";
import { listOf, textOf, type Variables } from "./variables.ts";

/** What a machine identity logs in with. */
export interface MachineCredentials {
  readonly clientId: string;
  /** Asked for with every login: it may be in a file, which holds another one by then. Throws when that cannot be read. */
  readonly clientSecret: () => string;
}

/** The settings of a program that serves a server as a machine identity. */
export interface MachineSettings {
  /** Replicas of one server; none when the variable is not set. */
  readonly serverUrls: readonly string[];
  /** In PEM, trusted beside those that Node trusts. */
  readonly certificateAuthorities: string | undefined;
  /** Undefined when the variables are not set. */
  readonly credentials: MachineCredentials | undefined;
  readonly logLevel: string;
}

const logLevels = ["fatal", "error", "warn", "info", "debug", "trace", "silent"];
const serverUrlRule = "must be URLs of servers without a path, as in https://holdfast.example.org, separated by commas";

export const readMachineSettings = (variables: Variables): MachineSettings => ({
  serverUrls: variables.read("SERVER_URL", [], serverUrlRule, parseServerUrls),
  certificateAuthorities: variables.read<string | undefined>("CA_FILE", undefined, "cannot be read", textOf),
  credentials: readCredentials(variables),
  logLevel: variables.read("LOG_LEVEL", "info", `must be one of ${logLevels.join(", ")}`, (text) =>
    logLevels.includes(text) ? text : undefined,
  ),
});

/** The URLs in a text, separated by commas; undefined when one of them is not that of a server. */
export function parseServerUrls(text: string): string[] | undefined {
  const urls = listOf(text).map((each) => grpcEndpoint(each)?.url);
  return urls.length > 0 && urls.every((url) => url !== undefined) ? urls : undefined;
}

/** Where the servers at these URLs take calls. */
export const endpointsOf = (urls: readonly string[], certificateAuthorities: string | undefined): GrpcEndpoint[] =>
  urls.flatMap((url) => grpcEndpoint(url, certificateAuthorities) ?? []);

function readCredentials(variables: Variables): MachineCredentials | undefined {
  const [clientId, secret, file] = ["CLIENT_ID", "CLIENT_SECRET", "CLIENT_SECRET_FILE"].map((name) =>
    variables.text(name),
  );
  if (secret !== undefined && file !== undefined) {
    variables.fault("SERVICE_CLIENT_SECRET and SERVICE_CLIENT_SECRET_FILE exclude each other: set one");
  }
  if ((clientId === undefined) !== ((secret ?? file) === undefined)) {
    variables.fault("SERVICE_CLIENT_ID and SERVICE_CLIENT_SECRET (or _FILE) go together: set both, or neither");
  }
  if (file !== undefined && !textOf(file)?.trim()) variables.fault("SERVICE_CLIENT_SECRET_FILE: cannot be read");
  if (clientId === undefined) return undefined;
  return { clientId, clientSecret: () => (file === undefined ? (secret ?? "") : readSecret(file)) };
}

function readSecret(file: string): string {
  const secret = textOf(file)?.trim();
  if (!secret) throw new Error("SERVICE_CLIENT_SECRET_FILE: cannot be read");
  return secret;
}
