import type { Database } from "../db/database.ts";
import type { Logger } from "../logging.ts";
import type { Seal } from "../seal/seal.ts";
import { AuditWriter } from "./audit-writer.ts";
import { addPartitionsIfPossible } from "./partitions.ts";
import { chainUnchained } from "./unchained.ts";

/** The key of all chains of the installation. */
export const installationChainKey = (seal: Seal): Promise<Buffer> => seal.serviceKey("audit-chain");

/** Makes the audit log ready to be written, with all that was written before in its chains. */
export async function openAuditWriter(db: Database, seal: Seal, logger: Logger): Promise<AuditWriter> {
  const audit = new AuditWriter(db, await installationChainKey(seal));
  await addPartitionsIfPossible(db, logger);
  await chainUnchained(db, audit, logger);
  return audit;
}
