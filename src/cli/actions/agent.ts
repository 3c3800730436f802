import { readFileSync } from "node:fs";
import { type ServiceError, status } from "@grpc/grpc-js";
import { checkStateFolder, credentialsPath, readCredentials, writeCredentials } from "../../agent/credentials.ts";
import { enroll } from "../../agent/enroll.ts";
import { userAgent } from "../../agent/host.ts";
import { readSettings, type Settings } from "../../agent/settings.ts";
import { GrpcConnection } from "../../client/grpc-connection.ts";
import { endpointsOf, parseServerUrls } from "../../client/machine-settings.ts";
import { ExposedFile } from "../../client/private-file.ts";
import { SettingError } from "../../client/program.ts";
import { CredentialRefused } from "../../client/stay-connected.ts";
import { askHidden, readLines } from "../ask.ts";
import { type exitCodes, Failure, usage } from "../failure.ts";
import { note } from "../output.ts";

export interface EnrollAgentOptions {
  readonly url?: string;
  readonly tokenFile?: string;
  readonly force?: boolean;
}

/** Enrolls this host. The token is never an argument, which every user of the host could see. */
export async function enrollAgent({ url, tokenFile, force }: EnrollAgentOptions): Promise<void> {
  const given = settings();
  const { stateFolder } = given;
  const path = credentialsPath(stateFolder);
  explaining(() => checkStateFolder(stateFolder));
  if (force !== true && isEnrolled(stateFolder)) {
    throw new Failure("conflict", `this host is enrolled: ${path} holds its credentials; --force replaces them`);
  }
  const serverUrls = url === undefined ? given.serverUrls : parseServerUrls(url);
  if (serverUrls === undefined)
    throw usage(`--url: ${url} is not the URL of a server, as in https://holdfast.example.org`);
  if (serverUrls.length === 0) throw usage("which server? name it with --url or SERVICE_SERVER_URL");
  const token = await readToken(given, tokenFile);
  const credentials = await enrollAt(serverUrls, given.certificateAuthorities, token);
  writeCredentials(stateFolder, credentials);
  note(`enrolled as agent ${credentials.agent_id}; its credentials are in ${path}`);
}

/** The settings of the environment. Throws a Failure that names each bad one. */
export const settings = (): Settings => explaining(() => readSettings(process.env));

/** What is wrong on this host, as a Failure. */
function explaining<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof SettingError) throw usage(error.message);
    if (error instanceof ExposedFile) throw usage(error.message, [`close it with: ${error.remedy}`]);
    throw error;
  }
}

/** Also by a file that is damaged, or that others could read. */
function isEnrolled(stateFolder: string): boolean {
  try {
    return readCredentials(stateFolder) !== undefined;
  } catch (error) {
    if (error instanceof ExposedFile || error instanceof SettingError) return true;
    throw error;
  }
}

async function readToken({ enrollmentToken, enrollmentTokenFile }: Settings, tokenFile?: string): Promise<string> {
  const file = tokenFile ?? (enrollmentToken === undefined ? enrollmentTokenFile : undefined);
  if (file !== undefined) return readTokenFile(file);
  if (enrollmentToken !== undefined) return enrollmentToken;
  if (process.stdin.isTTY) return askHidden("Enrollment token:", "give it on standard input");
  const [token = ""] = await readLines("the enrollment token");
  return token;
}

function readTokenFile(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    throw usage(`cannot read ${path} (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** Enrolls at the first of the replicas that can be reached. */
async function enrollAt(serverUrls: readonly string[], certificateAuthorities: string | undefined, token: string) {
  let away: unknown;
  for (const endpoint of endpointsOf(serverUrls, certificateAuthorities)) {
    const connection = new GrpcConnection(endpoint, userAgent);
    try {
      return await enroll(connection, token, serverUrls);
    } catch (error) {
      if ((error as Partial<ServiceError>).code !== status.UNAVAILABLE) throw explained(error);
      away = error;
    } finally {
      connection.close();
    }
  }
  throw explained(away);
}

const failures: Partial<Record<status, keyof typeof exitCodes>> = {
  [status.PERMISSION_DENIED]: "permission",
  [status.INVALID_ARGUMENT]: "invalid",
  [status.RESOURCE_EXHAUSTED]: "unavailable",
  [status.UNAVAILABLE]: "unavailable",
  [status.DEADLINE_EXCEEDED]: "unavailable",
};

function explained(error: unknown): unknown {
  if (error instanceof CredentialRefused) return new Failure("authentication", error.message);
  const { code, details } = error as Partial<ServiceError>;
  return code === undefined
    ? error
    : new Failure(failures[code] ?? "unexpected", `the server does not enroll it: ${details}`);
}
