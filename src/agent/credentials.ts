import { join } from "node:path";
import { ExposedFile, makePrivateFolder, readPrivateFile, writePrivateFile } from "../client/private-file.ts";
import { SettingError } from "../client/program.ts";

/** What an agent got when it enrolled. */
export interface Credentials {
  readonly agent_id: string;
  readonly client_id: string;
  readonly client_secret: string;
  /** Replicas of the server that it enrolled at. */
  readonly server_urls: readonly string[];
}

export const credentialsPath = (stateFolder: string): string => join(stateFolder, "credentials.json");

/** Undefined when the agent has not enrolled. Throws an ExposedFile, and a SettingError for a file that is of no use. */
export function readCredentials(stateFolder: string): Credentials | undefined {
  const path = credentialsPath(stateFolder);
  try {
    const text = readPrivateFile(path);
    return text === undefined ? undefined : (JSON.parse(text) as Credentials);
  } catch (error) {
    if (error instanceof ExposedFile) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new SettingError(code === undefined ? `${path} is damaged: enroll again` : `cannot read ${path} (${code})`);
  }
}

/** Before a token is used up: throws a SettingError or an ExposedFile when what it is exchanged for could not be kept. */
export function checkStateFolder(stateFolder: string): void {
  try {
    makePrivateFolder(stateFolder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new SettingError(`SERVICE_AGENT_STATE_DIR: cannot write to ${stateFolder} (${code})`);
  }
}

export function writeCredentials(stateFolder: string, credentials: Credentials): void {
  writePrivateFile(credentialsPath(stateFolder), `${JSON.stringify(credentials, null, 2)}\n`);
}
