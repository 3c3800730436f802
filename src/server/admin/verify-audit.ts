import { readFile } from "node:fs/promises";
import { organizationChainKey } from "../../standards/audit-chain.ts";
import { installationChainKey } from "../audit/chain-key.ts";
import { type ExportReport, readCheckpoint, verifyExport } from "../audit/verify-export.ts";
import { Seal } from "../seal/seal.ts";
import { withInstallation } from "./installation.ts";

export { UnreadableExport } from "../audit/verify-export.ts";

/**
 * Verifies an exported audit log with the keys of this installation; its database is opened for these only. Throws
 * UnreadableExport, errors of files, and what withInstallation() throws.
 */
export async function verifyAudit(file: string, checkpointFile?: string): Promise<ExportReport> {
  const checkpoint = checkpointFile === undefined ? [] : readCheckpoint(await readFile(checkpointFile, "utf8"));
  const keys = await withInstallation(async ({ database, masterKey }) => {
    const { key: installationKey } = await installationChainKey(new Seal(database, masterKey));
    const organizations = await database.query<{ id: string }>("select id from organization", []);
    return organizations.map(({ id }) => organizationChainKey(installationKey, id));
  });
  return verifyExport(file, keys, checkpoint);
}
